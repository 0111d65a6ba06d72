"""JAX environments as worlds."""

import numpy as np
import pytest
from jax_envs import BraxSlide, GymnaxCartPole

import slipstream
from slipstream.envs.adapters.jax_styles import BraxStyle, GymnaxStyle


@pytest.fixture(scope="module")
def cartpole():
    return slipstream.make(GymnaxStyle(GymnaxCartPole(), max_steps=30), num_worlds=16)


def test_it_moves_as_our_own_world_of_the_same_name(cartpole):
    ours = slipstream.make("cartpole", num_worlds=16)
    cartpole.reset(seed=2)
    state = cartpole.get_state()
    ours.reset()
    ours.set_state(**{name: state[name] for name in ("x", "x_dot", "theta", "theta_dot")})
    rng = np.random.default_rng(0)
    for _ in range(8):
        action = rng.integers(0, 2, 16)
        here, there = cartpole.step(action), ours.step(action)
        np.testing.assert_allclose(here.final_observation, there.final_observation, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(here.terminated, there.terminated)


def test_the_time_limit_truncates_and_a_fall_terminates(cartpole):
    cartpole.reset(seed=0)
    falls = cuts = 0
    for i in range(60):
        step = cartpole.step(np.full(16, i % 2))
        fell = np.abs(np.asarray(step.final_observation[2])) > 0.2094395
        np.testing.assert_array_equal(step.terminated, fell)
        ended = np.asarray(step.terminated | step.truncated)
        began = np.abs(np.asarray(step.observation)).max(axis=0) <= 0.05
        assert began[ended].all()
        falls, cuts = falls + int(fell.sum()), cuts + int((step.truncated & ~step.terminated).sum())
    assert cuts > 0
    statistics = cartpole.episode_statistics
    assert statistics.returns["agent"] == pytest.approx(statistics.length)  # a reward of 1 for each step


def test_the_same_seed_gives_the_same_bits_and_worlds_differ(cartpole):
    def history():
        seen = [cartpole.reset(seed=9)]
        seen += [cartpole.step(np.ones(16, int)).observation for _ in range(15)]
        return np.stack(seen)

    first, again = history(), history()
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(first[0, 0])) == 16


def test_worlds_are_part_of_more_in_several_processes():
    whole = slipstream.make(BraxStyle(BraxSlide()), num_worlds=8, seed=3)
    part = slipstream.make(BraxStyle(BraxSlide()), num_worlds=4, seed=3, first_world=4)
    action = np.full((1, 8), 0.3, np.float32)
    for _ in range(5):
        seen, piece = whole.step(action), part.step(action[:, 4:])
    np.testing.assert_allclose(seen.observation[:, 4:], piece.observation, rtol=1e-6)


def test_a_saved_state_goes_on_bit_for_bit():
    worlds = slipstream.make(BraxStyle(BraxSlide(), max_steps=7), num_worlds=4)
    actions = np.random.default_rng(0).uniform(-1, 1, (20, 1, 4)).astype(np.float32)
    for action in actions[:10]:
        worlds.step(action)
    saved = worlds.save()
    expected = [np.asarray(worlds.step(action).observation) for action in actions[10:]]
    other = slipstream.make(BraxStyle(BraxSlide(), max_steps=7), num_worlds=4)
    other.restore(saved)
    np.testing.assert_array_equal(other.observe(), saved["state/observation"])
    for action, seen in zip(actions[10:], expected):
        np.testing.assert_array_equal(other.step(action).observation, seen)


def test_a_world_that_breaks_is_reset_and_counted_alone():
    worlds = slipstream.make(BraxStyle(BraxSlide(breaks_at=0.55)), num_worlds=32)
    for _ in range(12):
        step = worlds.step(np.ones((1, 32), np.float32))
        assert np.isfinite(step.observation).all() and np.isfinite(step.final_observation).all()
        assert np.isfinite(step.reward).all()
    assert 0 < worlds.episode_statistics.broken < 200


def test_the_step_is_compiled_once(cartpole):
    for _ in range(3):
        cartpole.step(cartpole.sample_actions())
    cartpole.rollout_random(2)
    assert cartpole.engine.recordings == 1


OPTIONS = dict(num_worlds=64, rollout_length=16, hidden=(16, 16), quiet=True)


def test_it_trains_in_the_fused_loop(tmp_path):
    world = BraxStyle(BraxSlide(), max_steps=50)
    result = slipstream.train(world, run=tmp_path / "a", total_steps=51_200, evaluate_every=25, **OPTIONS)
    assert result.evaluation.groups["agent"].mean > -1.5  # doing nothing earns -4, or falls over the edge


@pytest.mark.slow
def test_a_run_that_was_resumed_ends_as_if_it_had_not_stopped(tmp_path):
    world = BraxStyle(BraxSlide(), max_steps=50)
    slipstream.train(world, run=tmp_path / "a", total_steps=51_200, **OPTIONS)
    half = slipstream.train(world, run=tmp_path / "b", total_steps=25_600, **OPTIONS)
    slipstream.train(world, resume=half.run, total_steps=51_200, quiet=True)
    whole, resumed = (slipstream.load(tmp_path / run, checkpoint="latest") for run in "ab")
    seen = np.random.default_rng(0).normal(size=(2, 5))
    np.testing.assert_array_equal(whole.act(seen), resumed.act(seen))


def test_plain_python_cannot_run_it():
    with pytest.raises(ValueError, match="run by another library"):
        slipstream.make(BraxStyle(BraxSlide()), num_worlds=1, backend="scalar")


def test_it_is_not_checked_here():
    from slipstream.envs.check import check

    with pytest.raises(ValueError, match="run by another library: there is no plain Python to compare it with"):
        check(BraxStyle(BraxSlide()))


def test_an_unknown_environment_of_brax_is_refused_with_the_nearest():
    pytest.importorskip("brax")
    with pytest.raises(ValueError, match="Brax knows no 'halfcheeta': did you mean 'halfcheetah'"):
        slipstream.make("brax:halfcheeta")


def test_an_environment_of_brax_is_a_world_by_its_name():
    pytest.importorskip("brax")
    worlds = slipstream.make("brax:fast", num_worlds=4, max_steps=5)
    for i in range(5):
        step = worlds.step(worlds.sample_actions())
        assert step.truncated.all() == (i == 4)
    assert worlds.episode_statistics.length == 5


@pytest.mark.slow
def test_a_robot_of_brax_learns(tmp_path):
    pytest.importorskip("brax")
    result = slipstream.train(
        "brax:inverted_pendulum", run=tmp_path / "run", total_steps=400_000, num_worlds=128, quiet=True, max_steps=200
    )
    assert result.returns["agent"] > 50  # at random, 5
