"""Worlds that are a part of more: what a world does depends on its number, not on the process it runs in."""

import drjit as dr
import numpy as np
import pytest
from small_worlds import Masked, Swarm

from slipstream.envs import Worlds, make
from slipstream.envs.frames import frame_of_state, of_worlds, take_step

every_backend = pytest.mark.parametrize("backend", ["llvm", "scalar"])


def worlds_of(env, num_worlds, backend, first_world=0):
    if isinstance(env, str):
        return make(env, num_worlds, 7, backend, first_world=first_world)
    return Worlds(env(), num_worlds, 7, backend, first_world=first_world)


def assert_part(part, whole, first, count, total):
    """The frame of some worlds is that of the same ones among all."""
    assert set(part) == set(whole)
    for name in part:
        expected = of_worlds(np.asarray(whole[name]), total)[first : first + count]
        np.testing.assert_array_equal(of_worlds(np.asarray(part[name]), count), expected, err_msg=name)


def by_group(worlds, actions):
    return actions if isinstance(actions, dict) else {worlds.groups[0].name: actions}


@every_backend
@pytest.mark.parametrize(
    ("env", "first", "count", "total"),
    [(Swarm, 4, 4, 8), (Swarm, 0, 3, 8), (Swarm, 5, 1, 6), (Masked, 4, 4, 8), ("tag-continuous", 4, 4, 8)],
)
def test_a_part_of_the_worlds_does_what_it_does_among_all(env, first, count, total, backend):
    part, whole = worlds_of(env, count, backend, first), worlds_of(env, total, backend)
    for episode in range(2):
        assert_part(frame_of_state(part), frame_of_state(whole), first, count, total)
        for _ in range(7):
            actions = [by_group(w, w.sample_actions()) for w in (part, whole)]
            assert_part(*actions, first, count, total)
            assert_part(take_step(part, actions[0]), take_step(whole, actions[1]), first, count, total)
        for worlds in (part, whole):
            worlds.rollout_random(3)
            if episode == 0:
                worlds.reset()
    assert_part(frame_of_state(part), frame_of_state(whole), first, count, total)


def test_worlds_with_other_numbers_need_no_other_kernel():
    def play(first_world):
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
            dr.kernel_history_clear()
            worlds = Worlds(Swarm(), 6, 3, "llvm", first_world=first_world)
            worlds.step_into(worlds.new_store(1), 0, worlds.checked_actions(worlds.sample_actions()))
            worlds.rollout_random(1)
            return [k for k in dr.kernel_history() if k["type"] == dr.KernelType.JIT]

    play(0)
    again = play(123_456)
    assert again and all(kernel["cache_hit"] for kernel in again)


@pytest.mark.parametrize("wrong", [-1, 1.5, "2", True, None])
def test_the_number_of_the_first_world_must_be_whole(wrong):
    with pytest.raises(ValueError, match="first_world must be 0 or a positive whole number"):
        make("cartpole", 2, first_world=wrong)


def test_numbers_that_would_repeat_are_refused():
    Worlds(Swarm(), 2, first_world=2**32 // 3 - 2)
    with pytest.raises(ValueError, match=r"beyond the number 2\^32"):
        Worlds(Swarm(), 2, first_world=2**32 // 3 - 1)
