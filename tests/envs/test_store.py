"""The store: one memory for kernels and JAX, written in place by one kernel."""

import drjit as dr
import numpy as np
import pytest
from small_worlds import Leaving, Masked

from slipstream.arrays import pointer
from slipstream.envs import Worlds, make


def address(buffer):
    return np.from_dlpack(buffer.array).__array_interface__["data"][0]


@pytest.mark.parametrize("env", ["cartpole", "tag-gridworld", "tag-continuous", Leaving, Masked])
def test_jax_reads_every_buffer_where_the_kernel_writes_it(env):
    worlds = make(env, num_worlds=6) if isinstance(env, str) else Worlds(env(), 6)
    store = worlds.new_store(3)
    before = {name: address(buffer) for name, buffer in store.named_buffers().items()}
    views = {name: buffer.view for name, buffer in store.named_buffers().items()}
    for slot in (0, 1, 2, 1):
        worlds.step_into(store, slot, worlds.checked_actions(worlds.sample_actions()))
    for name, buffer in store.named_buffers().items():
        assert address(buffer) == before[name] == pointer(views[name]) == pointer(buffer.view)
        assert views[name].shape == buffer.shape
    for group in worlds.groups:  # what is seen is what is there now
        observed = worlds.observe()
        expected = observed[group.name] if isinstance(observed, dict) else observed
        np.testing.assert_array_equal(store.observation[group.name].view[1], expected)


def test_what_a_step_returns_is_the_memory_the_kernel_wrote(monkeypatch):
    worlds = make("cartpole", num_worlds=64)
    stores = []
    new_store = worlds.new_store
    monkeypatch.setattr(worlds, "new_store", lambda n: stores.append(new_store(n)) or stores[-1])
    step = worlds.step(np.zeros(64, np.int32))
    buffers = stores[-1].named_buffers()
    for kind in ("observation", "reward", "terminated", "final_observation"):
        assert pointer(getattr(step, kind)) == address(buffers[f"{kind}/cart"])
    assert pointer(step.truncated) == address(buffers["truncated"])


def test_arrays_of_earlier_steps_keep_their_values():
    worlds = make("cartpole", num_worlds=8)
    steps = [worlds.step(np.ones(8, np.int32)) for _ in range(3)]
    kept = [np.array(s.observation) for s in steps]
    worlds.step(np.zeros(8, np.int32))
    for step, values in zip(steps, kept):
        np.testing.assert_array_equal(step.observation, values)
    assert not np.array_equal(kept[0], kept[1])


@pytest.mark.parametrize(("name", "kernels"), [("cartpole", 1), ("pendulum", 1), ("acrobot", 1)])
def test_a_step_of_a_world_without_agents_is_one_kernel(name, kernels):
    worlds = make(name, num_worlds=128)
    store = worlds.new_store(2)
    actions = worlds.checked_actions(worlds.sample_actions())
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        worlds.step_into(store, 0, actions)
        dr.kernel_history_clear()
        for slot in (1, 0, 1):
            worlds.step_into(store, slot, actions)
        launched = [k for k in dr.kernel_history() if k["type"] == dr.KernelType.JIT]
    assert len(launched) == 3 * kernels
    assert not any(k["size"] != 128 for k in launched)


def test_final_observations_are_written_only_where_an_episode_ended():
    worlds = make("pendulum", num_worlds=40)
    worlds.set_state(step=np.where(np.arange(40) % 7 == 0, 199, 5))
    store = worlds.new_store(1)
    worlds.step_into(store, 0, worlds.checked_actions(worlds.sample_actions()))
    final = np.asarray(store.final_observation["pendulum"].view[0])
    ended = np.asarray(store.truncated.view[0])
    np.testing.assert_array_equal(ended, np.arange(40) % 7 == 0)
    assert not final[:, ~ended].any()
    np.testing.assert_allclose(final[0, ended] ** 2 + final[1, ended] ** 2, 1.0, rtol=1e-5)


def test_copying_a_slot_takes_along_what_an_action_is_chosen_from():
    worlds = Worlds(Leaving(), 4)
    store = worlds.new_store(3)
    for slot in (0, 1):
        worlds.step_into(store, slot, worlds.checked_actions(worlds.sample_actions()))
    store.copy_slot(1, 2)
    for buffer in (*store.observation.values(), *store.active.values()):
        np.testing.assert_array_equal(buffer.view[1], buffer.view[2])
    assert not np.asarray(store.reward["walker"].view[2]).any()
