import numpy as np
import pytest
import writers

from slipstream.training.pipeline.ring import Region, Ring


def rows(*values: float, width: int = 3) -> np.ndarray:
    return np.repeat(np.array(values, np.float32)[:, None], width, axis=1)


def drawn(ring: Ring, count: int = 2000, seed: int = 0) -> np.ndarray:
    numbers = np.empty((count, ring.width), np.float32)
    pixels = np.empty((count, ring.pixels), np.uint8)
    ring.draw(count, np.random.default_rng(seed), numbers, pixels)
    assert (numbers == numbers[:, :1]).all()
    assert (pixels == numbers[:, :1] % 251).all()
    return numbers[:, 0]


def restored(ring: Ring, regions: int, capacity: int) -> Ring:
    saved = {
        name: np.concatenate([c.copy() for c in a.chunks()]).reshape(a.shape) if hasattr(a, "chunks") else a.copy()
        for name, a in ring.save().items()
    }
    new = Ring(regions, capacity, ring.width, ring.pixels)
    new.restore(saved)
    return new


def test_rows_of_all_regions_are_drawn_alike():
    ring = Ring(3, 30, 3)
    Region(ring.block, 0).write(rows(1, 2, 3, 4, 5, 6))
    Region(ring.block, 2).write(rows(7, 8))
    assert ring.available == 8
    values, counts = np.unique(drawn(ring, 8000), return_counts=True)
    assert values.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert counts.min() > 850
    assert counts.max() < 1150


def test_the_oldest_rows_are_written_over():
    ring = Ring(1, 8, 3)
    region = Region(ring.block, 0)
    for first in range(0, 15, 3):
        region.write(rows(first, first + 1, first + 2))
    found = set(drawn(ring).tolist())
    assert found <= set(range(7, 15))
    assert found >= set(range(8, 15))  # the one that would be overwritten next is left alone


def test_what_a_writer_that_died_has_half_written_is_never_drawn():
    ring = Ring(1, 8, 3)
    Region(ring.block, 0).write(rows(*range(5)))
    Region(ring.block, 0).write(rows(*range(5, 8)))
    ring.block["claimed"][0] = 11  # it was about to write three more, and came as far as this
    ring.block["numbers"][0, :2] = [[9, 9, -1], [-1, 9, 9]]
    assert set(drawn(ring).tolist()) == {4, 5, 6, 7}
    Region(ring.block, 0).write(rows(20))  # the one that takes its place writes over the first of them
    assert ring.block["claimed"][0] == 11
    assert set(drawn(ring).tolist()) == {4, 5, 6, 7, 20}
    saved = set(restored(ring, 1, 8).block["numbers"][0].reshape(-1).tolist())
    assert saved <= {20, 3, 4, 5, 6, 7}


def test_rows_are_whole_while_writers_hammer():
    ring = Ring(2, 200, 40, 300)
    started = [
        writers.start(
            "write_rows_for_ever", {"block": ring.block.to_json(), "region": i, "count": 7 - i}, ring.block.descriptor
        )
        for i in range(2)
    ]
    try:
        while not (ring.block["written"] > 1000).all():
            assert all(w.poll() is None for w in started)
        again = 0
        numbers, pixels = np.empty((500, 40), np.float32), np.empty((500, 300), np.uint8)
        rng = np.random.default_rng(0)
        for _ in range(300):
            again += ring.draw(500, rng, numbers, pixels)[1]
            assert (numbers == numbers[:, :1]).all()
            assert (pixels == numbers[:, :1] % 251).all()
        assert again  # else this test has tested nothing
        assert drawn(restored(ring, 3, 150)).size
    finally:
        for w in started:
            w.kill()
            w.wait()


def test_a_ring_is_restored_with_another_number_of_regions():
    ring = Ring(2, 20, 3, 5)
    for number, values in enumerate((np.arange(0, 24, 2), np.arange(1, 13, 2))):
        Region(ring.block, number).write(rows(*values[:6]), np.repeat(values[:6, None], 5, 1).astype(np.uint8))
        if len(values) > 6:
            Region(ring.block, number).write(rows(*values[6:]), np.repeat(values[6:, None], 5, 1).astype(np.uint8))
    new = restored(ring, 3, 30)
    assert sorted(np.unique(drawn(new)).tolist()) == sorted([*range(4, 24, 2), *range(1, 13, 2)])
    smaller = restored(ring, 1, 4)
    assert set(smaller.block["numbers"][0, :, 0].tolist()) == {22, 11, 20, 18}
    Region(smaller.block, 0).write(rows(99))
    assert 99 in smaller.block["numbers"][0, :, 0]
    assert 22 in smaller.block["numbers"][0, :, 0]


def test_rows_of_another_kind_are_refused():
    with pytest.raises(ValueError, match="its rows have 12 bytes, expected 16"):
        Ring(1, 4, 4).restore({"rows": np.zeros((2, 12), np.uint8), "filled": np.array([2])})


def test_the_age_of_what_is_drawn_is_about_half_of_what_is_there():
    ring = Ring(2, 2000, 3)
    for number in range(2):
        Region(ring.block, number).write(rows(*range(500)))
    age, _ = ring.draw(4000, np.random.default_rng(0), np.empty((4000, 3), np.float32))
    assert 470 < age < 530


def test_an_empty_ring_cannot_be_drawn_from():
    with pytest.raises(ValueError, match="nothing in the ring"):
        Ring(2, 20, 3).draw(1, np.random.default_rng(0), np.empty((1, 3), np.float32))
