import contextlib

import numpy as np
import pytest
import writers

from slipstream.training.pipeline.weights import NONE, Weights


def some(value: float, size: int = 1000) -> dict[str, np.ndarray]:
    return {"a": np.full(size, value, np.float32), "b/c": np.full((size, 3), value, np.float32)}


def test_the_newest_version_is_read():
    weights = Weights.like(some(0))
    mine = weights.empty()
    assert weights.read(mine) == NONE
    for version in (0, 3, 4):
        weights.publish(some(version + 0.5), version)
        assert weights.version == weights.read(mine) == version
        assert all((array == version + 0.5).all() for array in mine.values())


def test_versions_grow():
    weights = Weights.like(some(0))
    weights.publish(some(1), 5)
    with pytest.raises(ValueError, match="Version 5 of the weights comes after 5"):
        weights.publish(some(2), 5)


def test_a_reader_never_sees_half_a_write_of_a_hammering_writer():
    weights = Weights.like(some(0, 20_000))
    mine = weights.empty()
    writer = writers.start("publish_for_ever", weights.to_json(), weights.descriptor)
    try:
        while weights.version == NONE:
            assert writer.poll() is None
        seen, reads = set(), 0
        while reads < 2000 or len(seen) <= 10:  # where others want the core, the writer sometimes waits
            assert writer.poll() is None
            version = weights.read(mine)
            seen.add(version)
            reads += 1
            for array in mine.values():
                assert array.min() == array.max() == np.float32(version)
    finally:
        writer.kill()
        writer.wait()


def test_a_writer_that_dies_leaves_the_last_whole_version():
    weights = Weights.like(some(0, 20_000))
    mine = weights.empty()
    for _ in range(3):
        before = weights.version
        writer = writers.start("publish_for_ever", weights.to_json(), weights.descriptor)
        while weights.version < before + 3:
            assert writer.poll() is None
        writer.kill()
        writer.wait()
        version = weights.read(mine)
        assert all(array.min() == array.max() == np.float32(version) for array in mine.values())


@pytest.mark.parametrize("fences", [1, 2, 3])
def test_wherever_a_writer_dies_the_last_whole_version_can_be_read(fences, monkeypatch):
    class Died(Exception):
        pass

    left = 0

    def fence():
        nonlocal left
        left -= 1
        if left == 0:
            raise Died

    weights = Weights.like(some(0, 5))
    mine = weights.empty()
    monkeypatch.setattr("slipstream.training.pipeline.weights.fence", fence)
    for version in range(0, 6, 2):
        weights.publish(some(version, 5), version)
        left = fences
        with contextlib.suppress(Died):
            weights.publish(some(version + 1, 5), version + 1)
        left = 100  # a reader that tries for ever dies, too
        found = weights.read(mine)
        assert found in (version, version + 1)
        assert all((array == found).all() for array in mine.values())
