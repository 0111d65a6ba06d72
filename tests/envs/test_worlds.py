"""N copies of a world: time limits, resets, statistics, state, and what is refused."""

import gc

import jax.numpy as jnp
import numpy as np
import pytest
from small_worlds import Drift, Fragile, Leaving, Masked

from slipstream.envs import Worlds, make
from slipstream.envs.registry import NAMES

every_backend = pytest.mark.parametrize("backend", ["llvm", "scalar"])


MANY = 9
"""Worlds of every kind, the same number in all tests: their kernels are compiled once."""


ALIKE = [n for n in NAMES if n.startswith("humanoid-") and not n.endswith("-terrain")]
"""Humanoids that have most of their kernel in common with those that are left."""
SUITE = [n for n in NAMES if n.startswith("dm-") and n not in ("dm-hopper-hop", "dm-swimmer-swimmer6")]
"""Of the control suite all but two: one with starts from a table and sensors, one with a target."""


def few(*slow):
    return [pytest.param(n, marks=[pytest.mark.slow] if any(n in names for names in slow) else []) for n in NAMES]


@pytest.mark.parametrize("name", few(ALIKE, SUITE))
def test_a_thousand_steps_with_resets_record_the_kernel_once(name):
    worlds = make(name, num_worlds=MANY)
    for i in range(1000):
        worlds.step_into(store := worlds.new_store(1), 0, actions(worlds, i))
    del store
    worlds.reset()
    worlds.set_state(**worlds.get_state())
    worlds.step_into(worlds.new_store(1), 0, actions(worlds, 3))
    assert worlds.engine.recordings == 1
    assert worlds.episode_statistics.episodes >= MANY


def actions(worlds, seed):
    """New random actions, cheaper than `sample_actions`."""
    draw = np.random.default_rng(seed)
    given = {}
    for g in worlds.groups:
        lanes = worlds.lanes(g.name)
        if hasattr(g.action, "choices"):
            rows = np.stack([draw.integers(0, n, lanes) for n in g.action.choices]).astype(np.int32)
        else:
            rows = draw.uniform(-1, 1, (g.action.size, lanes)).astype(np.float32)
        given[g.name] = jnp.asarray(rows)
    return given


@pytest.mark.parametrize("name", few(SUITE))
def test_state_goes_out_and_in_bit_for_bit(name):
    worlds, other = make(name, num_worlds=MANY, seed=1), make(name, num_worlds=MANY, seed=2)
    for i in range(5):
        worlds.step(actions(worlds, i))
    state = worlds.get_state()
    other.set_state(**state)
    for field, values in other.get_state().items():
        np.testing.assert_array_equal(values, state[field])
        assert values.dtype == state[field].dtype


@pytest.mark.parametrize("name", few(SUITE))
def test_restored_worlds_go_on_bit_for_bit(name):
    worlds = make(name, num_worlds=MANY, seed=3)
    for i in range(4):
        worlds.step(actions(worlds, i))
    saved = {key: value.copy() for key, value in worlds.save().items()}
    onward = [worlds.step(worlds.sample_actions()) for _ in range(30)]
    other = make(name, num_worlds=MANY, seed=3)
    other.restore(saved)
    again = [other.step(other.sample_actions()) for _ in range(30)]
    for a, b in zip(onward, again):
        for x, y in zip(leaves(a), leaves(b)):
            np.testing.assert_array_equal(x, y)
    assert worlds.episode_statistics == other.episode_statistics or not worlds.episode_statistics.episodes


def leaves(step):
    for part in step:
        yield from part.values() if isinstance(part, dict) else [part]


@every_backend
def test_truncation_keeps_the_final_observation_beside_the_first_one(backend):
    worlds = Worlds(Drift(), 4, backend=backend)
    worlds.set_state(x=np.full(4, 0.8), step=[0, 9, 8, 9])
    step = worlds.step(np.ones((1, 4), np.float32))
    assert step.truncated.tolist() == [False, True, False, True]
    assert not any(step.terminated.tolist())
    final, first = np.asarray(step.final_observation)[0], np.asarray(step.observation)[0]
    np.testing.assert_allclose(final, 0.9, atol=0.0101)
    np.testing.assert_array_equal(final[[0, 2]], first[[0, 2]])
    assert (np.abs(first[[1, 3]]) <= 0.5).all()
    np.testing.assert_array_equal(worlds.observe(), step.observation)


@every_backend
def test_a_step_can_terminate_and_be_truncated_at_once(backend):
    worlds = Worlds(Drift(), 1, backend=backend)
    worlds.set_state(x=[1.5], step=[9])
    step = worlds.step(np.zeros((1, 1), np.float32))
    assert bool(step.terminated[0]) and bool(step.truncated[0])


@every_backend
def test_agents_leave_one_by_one_and_the_world_ends_with_the_last(backend):
    worlds = Worlds(Leaving(), 2, backend=backend)
    flags, active = [], []
    for _ in range(4):
        step = worlds.step({"walker": np.zeros(6, int), "watcher": np.zeros(2, int)})
        flags.append(np.asarray(step.terminated["walker"])[:3].tolist())
        active.append(np.asarray(worlds.active()["walker"])[:3].tolist())
    # Left for good: after leaving, an agent does not terminate again until its world does.
    assert flags == [[False] * 3, [True, False, False], [False, True, False], [True] * 3]
    assert active == [[True] * 3, [False, True, True], [False, False, True], [True] * 3]
    assert step.terminated["watcher"].tolist() == [True, True]
    statistics = worlds.episode_statistics
    assert statistics.episodes == 2 and statistics.length == 4.0
    assert statistics.report == {"left": 3.0}
    assert statistics.returns["walker"] == pytest.approx((2 + 3 + 4) / 3)
    assert statistics.returns["watcher"] == pytest.approx(2.0)


@every_backend
def test_masked_actions_are_never_sampled(backend):
    worlds = Worlds(Masked(), 60, backend=backend)
    seen = set()
    for _ in range(12 if backend == "scalar" else 60):
        chosen = worlds.sample_actions()
        mask = np.asarray(worlds.action_mask()["one"])
        assert mask[np.asarray(chosen[0]), np.arange(60)].all()
        seen.update(np.asarray(chosen[0]).tolist())
        assert not np.asarray(worlds.step(chosen).reward).any()
    assert seen == {0, 1, 2}


def test_actions_drawn_in_the_kernel_respect_masks_too():
    worlds = Worlds(Masked(), 500)
    taken = set()
    for _ in range(50):
        worlds.rollout_random(1)
        taken.update(worlds.get_state()["last"].tolist())
    assert taken == {0, 1, 2}
    statistics = worlds.episode_statistics
    assert statistics.episodes == 500
    assert statistics.returns["one"] == 0.0  # a forbidden action costs 1


@every_backend
def test_a_world_that_is_not_finite_is_reset_counted_and_alone(backend):
    worlds, healthy = (Worlds(Fragile(), 6, backend=backend) for _ in range(2))
    given = np.array([1, 0, 1, 0, 0, 0])
    for _ in range(3):
        step = worlds.step(given)
        undisturbed = healthy.step(np.zeros(6, int))
    assert worlds.episode_statistics.broken == 2
    for array in leaves(step):
        assert np.isfinite(np.asarray(array, np.float64)).all()
    for a, b in zip(leaves(step), leaves(undisturbed)):
        np.testing.assert_array_equal(np.asarray(a)[..., [1, 3, 4, 5]], np.asarray(b)[..., [1, 3, 4, 5]])


def test_an_undefined_state_ends_the_episode_with_reward_0():
    worlds = Worlds(Drift(), 3)
    worlds.set_state(x=[0.0, np.nan, 0.0])
    step = worlds.step(np.zeros((1, 3), np.float32))
    assert step.terminated.tolist() == [False, True, False]
    assert step.reward[1] == 0.0 and step.final_observation[0, 1] == 0.0
    assert np.isfinite(worlds.get_state()["x"]).all()
    assert worlds.episode_statistics.broken == 1


@every_backend
def test_the_same_seed_gives_the_same_bits_and_another_one_does_not(backend):
    def play(seed):
        worlds = Worlds(Drift(), 4, seed, backend)
        return np.stack([worlds.step(worlds.sample_actions()).observation for _ in range(15)])

    np.testing.assert_array_equal(play(1), play(1))
    assert not np.array_equal(play(1), play(2))


@every_backend
def test_resetting_with_a_seed_gives_the_bits_of_fresh_worlds_and_records_nothing(backend):
    worlds = Worlds(Leaving(), 4, 1, backend)
    for _ in range(7):
        worlds.step(worlds.sample_actions())
    recordings = worlds.engine.recordings
    for seed in (1, 2):
        fresh, first = Worlds(Leaving(), 4, seed, backend), worlds.reset(seed)
        assert worlds.episode_statistics.episodes == 0 and worlds.seed == seed
        for name, values in fresh.save().items():
            np.testing.assert_array_equal(worlds.save()[name], values)
        np.testing.assert_array_equal(first["watcher"], fresh.observe()["watcher"])
        for _ in range(6):
            for a, b in zip(leaves(worlds.step(worlds.sample_actions())), leaves(fresh.step(fresh.sample_actions()))):
                np.testing.assert_array_equal(a, b)
    assert worlds.engine.recordings == recordings == (1 if backend == "llvm" else 0)


@every_backend
def test_resetting_without_a_seed_begins_another_episode(backend):
    worlds = Worlds(Drift(), 4, backend=backend)
    first = np.array(worlds.observe())
    worlds.step(worlds.sample_actions())
    assert not np.array_equal(worlds.reset(), first)
    assert not worlds.get_state()["step"].any()


def test_random_rollouts_agree_in_what_they_count():
    worlds = make("tag-gridworld", num_worlds=50, num_taggers=4)
    worlds.rollout_random(200)
    statistics = worlds.episode_statistics
    assert statistics.episodes > 50
    assert worlds.engine.recordings == 1
    with pytest.raises(ValueError, match="at least 1, got 0"):
        worlds.rollout_random(0)


def test_discarded_worlds_may_be_collected_at_any_moment():
    """Recording a kernel while garbage holds arrays over JAX's memory once aborted the process."""
    gc.set_threshold(1)
    try:
        for _ in range(3):
            worlds = Worlds(Drift(), 3)
            worlds.step(worlds.sample_actions())
            worlds.set_state(**worlds.get_state())
            del worlds
    finally:
        gc.set_threshold(700, 10, 10)


# Bad input.


@pytest.mark.parametrize("count", [0, -4, 2.5, "8", None])
def test_the_number_of_worlds_must_be_positive(count):
    with pytest.raises(ValueError, match="num_worlds must be a positive whole number"):
        make("cartpole", num_worlds=count)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros(3, int), r"shape \[1, 4\] \(components, lanes\), got \[3\]"),
        (np.zeros((2, 4), int), r"got \[2, 4\]"),
        (np.zeros(4, np.float32), "whole numbers, got float32"),
        (np.zeros(4, bool), "whole numbers, got bool"),
        (np.array([0, 1, 2, 0]), r"Action 2 of group 'cart' \(component 0, lane 2\).*0 \.\. 1"),
        (np.array([0, -1, 1, 0]), "Action -1"),
        ({"dog": np.zeros(4, int)}, r"groups \['cart'\], got \['dog'\]"),
    ],
    ids=["too few lanes", "too many components", "reals", "flags", "too high", "negative", "unknown group"],
)
@every_backend
def test_wrong_discrete_actions_are_named(backend, given, message):
    worlds = make("cartpole", num_worlds=4, backend=backend)
    before = worlds.get_state()
    with pytest.raises(ValueError, match=message):
        worlds.step(given)
    for field, values in worlds.get_state().items():
        np.testing.assert_array_equal(values, before[field])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_actions_that_are_not_finite_are_named_by_their_lane(bad):
    given = np.zeros((1, 4), np.float32)
    given[0, 2] = bad
    with pytest.raises(ValueError, match=r"not finite.*lane 2"):
        make("pendulum", num_worlds=4).step(given)
    with pytest.raises(ValueError, match="real numbers, got int32"):
        make("pendulum", num_worlds=4).step(np.zeros((1, 4), np.int32))


def test_several_groups_need_a_dictionary_of_actions():
    worlds = make("tag-gridworld", num_worlds=2)
    with pytest.raises(ValueError, match=r"dictionary with the groups \['tagger', 'runner'\]"):
        worlds.step(np.zeros(2, int))
    with pytest.raises(ValueError, match=r"got \['tagger'\]"):
        worlds.step({"tagger": np.zeros(20, int)})


def test_wrong_states_are_named():
    worlds = make("cartpole", num_worlds=4)
    with pytest.raises(ValueError, match="Unknown state field 'y'; the fields are x, x_dot, theta, theta_dot, step"):
        worlds.set_state(y=np.zeros(4))
    with pytest.raises(ValueError, match=r"'x' must have shape \[4\], got \[5\]"):
        worlds.set_state(x=np.zeros(5))
    with pytest.raises(ValueError, match="'x' must be numbers, got"):
        worlds.set_state(x=["a"] * 4)


def test_worlds_say_what_they_are():
    expected = "<3 worlds of CartPole on llvm: 1 cart (Box(4) -> Discrete(2))>"
    assert repr(make("cartpole", num_worlds=3, backend="llvm")) == expected
