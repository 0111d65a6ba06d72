import numpy as np

from slipstream.training.pipeline.rollouts import Rollouts, Slabs


def fill(slabs: Slabs, value: float) -> bool:
    slab = slabs.free()
    if slab is None:
        return False
    for array in slab.values():
        array[:] = value
    slabs.complete()
    return True


def test_a_sampler_is_at_most_two_slabs_ahead():
    rollouts = Rollouts(1, 4, 3, 1, 2, False)
    slabs = Slabs(rollouts.block, 0)
    assert fill(slabs, 1)
    assert fill(slabs, 2)
    assert not fill(slabs, 3)
    into = rollouts.empty()
    rollouts.take(into)
    assert (into["reward"] == 1).all()
    assert fill(slabs, 3)
    rollouts.take(into)
    assert (into["reward"] == 2).all()
    rollouts.take(into)
    assert (into["reward"] == 3).all()
    assert not rollouts.ready


def test_what_all_samplers_went_through_lies_side_by_side():
    rollouts = Rollouts(2, 4, 3, 1, 2, False)
    first, second = (Slabs(rollouts.block, i) for i in range(2))
    fill(first, 1)
    assert not rollouts.ready
    fill(second, 2)
    assert rollouts.ready
    into = rollouts.empty()
    rollouts.take(into)
    assert into["observation"].shape == (5, 3, 4)
    assert into["reward"].tolist() == [[1, 1, 2, 2]] * 4


def test_a_slab_that_was_not_completed_is_filled_anew():
    rollouts = Rollouts(1, 4, 3, 1, 2, False)
    slab = Slabs(rollouts.block, 0).free()
    assert slab is not None
    slab["reward"][:2] = -1.0  # and then it died
    fill(Slabs(rollouts.block, 0), 7)
    into = rollouts.empty()
    rollouts.take(into)
    assert (into["reward"] == 7).all()


def test_pictures_stay_bytes():
    rollouts = Rollouts(1, 2, 3, 1, 2, True)
    assert rollouts.empty()["observation"].dtype == np.uint8
