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
        seen = set()
        for _ in range(2000):
            version = weights.read(mine)
            seen.add(version)
            for array in mine.values():
                assert array.min() == array.max() == np.float32(version)
        assert len(seen) > 10
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
