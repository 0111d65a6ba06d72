"""The store: one memory for kernels and JAX, written in place by one kernel."""

import drjit as dr
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_worlds import Drift, Leaving, Masked

from slipstream.arrays import pointer
from slipstream.envs import Worlds, make
from slipstream.envs.store import KINDS

every_backend = pytest.mark.parametrize("backend", ["llvm", "scalar"])


def address(buffer):
    return np.from_dlpack(buffer.array).__array_interface__["data"][0]


@every_backend
@pytest.mark.parametrize("env", ["cartpole", "tag-gridworld", "tag-continuous", Leaving, Masked])
def test_jax_reads_every_buffer_where_the_kernel_writes_it(env, backend):
    worlds = make(env, 6, backend=backend) if isinstance(env, str) else Worlds(env(), 6, backend=backend)
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
        np.testing.assert_array_equal(store.views["observation"][group.name][1], expected)


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


@every_backend
def test_arrays_of_earlier_steps_keep_their_values(backend):
    worlds = make("cartpole", 8, backend=backend)
    held = [worlds.observe()]
    for i in range(6):
        step = worlds.step(np.full(8, i % 2, np.int32))
        held += [*step, worlds.observe()]
    kept = [np.array(array) for array in held]
    for _ in range(20):  # these are let go at once: their memory may be used again
        worlds.step(np.zeros(8, np.int32))
        worlds.observe()
    for array, values in zip(held, kept):
        np.testing.assert_array_equal(array, values)
    assert len({pointer(array) for array in held}) == len(held)


def test_what_jax_still_computes_with_is_not_written():
    """A step whose arrays nobody holds any more, but for a computation that has not finished."""
    worlds = make("pendulum", 20_000)
    slow = jax.jit(lambda x: jax.lax.fori_loop(0, 300, lambda i, y: jnp.sin(y + x), x))
    expected, got = [], []
    for i in range(6):
        observation = worlds.step(np.full((1, 20_000), i / 6, np.float32)).observation
        expected.append(np.array(observation))
        got.append(slow(observation))
        del observation
    for values, result in zip(expected, got):
        np.testing.assert_array_equal(result, slow(jnp.asarray(values)))


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
    final = np.asarray(store.views["final_observation"]["pendulum"][0])
    ended = np.asarray(store.views["truncated"][0])
    np.testing.assert_array_equal(ended, np.arange(40) % 7 == 0)
    assert not final[:, ~ended].any()
    np.testing.assert_allclose(final[0, ended] ** 2 + final[1, ended] ** 2, 1.0, rtol=1e-5)


@every_backend
def test_a_store_says_whose_episode_has_ended_and_why(backend):
    worlds = Worlds(Drift(), 4, backend=backend)
    worlds.set_state(x=[0.0, 0.0, 1.5, 1.5], step=[0, 9, 0, 9])
    store = worlds.new_store(2)
    worlds.step_into(store, 1, {"point": jnp.zeros((1, 4))})
    views = store.views
    assert np.asarray(views["done"][1]).tolist() == [False, True, True, True]
    assert np.asarray(views["truncated"][1]).tolist() == [False, True, False, True]
    assert np.asarray(views["terminated"]["point"][1]).tolist() == [False, False, True, True]
    assert not any(np.asarray(view[0]).any() for view in (views["done"], views["truncated"]))


@pytest.mark.parametrize("env", ["tag-gridworld", "tag-continuous", "cartpole"])
@every_backend
def test_every_group_has_a_flag_for_each_of_its_agents(env, backend):
    worlds = make(env, num_worlds=3, backend=backend)
    views = worlds.new_store(2).views
    for group in worlds.groups:
        assert views["terminated"][group.name].shape == (2, worlds.lanes(group.name))
    assert views["truncated"].shape == views["done"].shape == (2, 3)
    assert list(views) == [kind.name for kind in KINDS]


@every_backend
def test_what_is_observed_is_what_the_last_step_has_written(backend):
    worlds = Worlds(Leaving(), 3, backend=backend)
    store = worlds.new_store(2)
    for _ in range(5):
        worlds.step_into(store, 0, worlds.checked_actions(worlds.sample_actions()))
        worlds.observe_into(store, 1)
        for name, values in store.save_slot(0).items():
            np.testing.assert_array_equal(store.save_slot(1)[name], values)
    seen = {f"{k}/{g}" for k in ("observation", "active") for g in ("walker", "watcher")}
    assert set(store.save_slot(0)) == {*seen, "done"}


@every_backend
@pytest.mark.parametrize("env", [Leaving, Masked])
def test_a_saved_slot_can_be_put_back_anywhere(env, backend):
    worlds = Worlds(env(), 4, backend=backend)
    store, other = worlds.new_store(2), worlds.new_store(3)
    for _ in range(3):
        worlds.step_into(store, 1, worlds.checked_actions(worlds.sample_actions()))
    saved = store.save_slot(1)
    other.restore_slot(2, saved)
    for name, values in other.save_slot(2).items():
        np.testing.assert_array_equal(values, saved[name])
        assert (values.any() or name == "done") and values.dtype == saved[name].dtype
    for values in other.save_slot(1).values():
        assert not values.any()


def test_a_slot_that_does_not_fit_is_refused():
    store = Worlds(Leaving(), 4).new_store(1)
    saved = store.save_slot(0)
    for wrong, message in (
        ({n: a for n, a in saved.items() if n != "active/walker"}, "has no array 'active/walker'"),
        ({**saved, "observation/wolf": np.zeros(3)}, "an array 'observation/wolf' that this world has not"),
        ({**saved, "active/walker": np.zeros(9, bool)}, r"'active/walker' .* has shape \[9\], expected \[12\]"),
    ):
        with pytest.raises(ValueError, match=message):
            store.restore_slot(0, wrong)


def test_a_store_has_room_for_what_acting_keeps():
    assert Worlds(Drift(), 2).new_store(1).kept == {}


def test_copying_a_slot_takes_along_what_an_action_is_chosen_from():
    worlds = Worlds(Leaving(), 4)
    store = worlds.new_store(3)
    for slot in (0, 1):
        worlds.step_into(store, slot, worlds.checked_actions(worlds.sample_actions()))
    store.copy_slot(1, 2)
    for view in (*store.views["observation"].values(), *store.views["active"].values()):
        np.testing.assert_array_equal(view[1], view[2])
    assert not np.asarray(store.views["reward"]["walker"][2]).any()
