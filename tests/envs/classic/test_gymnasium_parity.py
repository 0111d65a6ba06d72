"""The classic worlds against Gymnasium's own environments, from the same states and actions."""

import math

import gymnasium
import numpy as np
import pytest

from slipstream.envs import make

PI = math.pi
WORLDS = {
    # ours: (Gymnasium's, our state fields, lows and highs of random states, of states after a reset)
    "cartpole": (
        "CartPole-v1",
        ("x", "x_dot", "theta", "theta_dot"),
        ((-2.6, -3, -0.25, -3), (2.6, 3, 0.25, 3)),
        ((-0.05,) * 4, (0.05,) * 4),
    ),
    "mountain-car": (
        "MountainCar-v0",
        ("position", "velocity"),
        ((-1.2, -0.07), (0.6, 0.07)),
        ((-0.6, 0.0), (-0.4, 0.0)),
    ),
    "mountain-car-continuous": (
        "MountainCarContinuous-v0",
        ("position", "velocity"),
        ((-1.2, -0.07), (0.6, 0.07)),
        ((-0.6, 0.0), (-0.4, 0.0)),
    ),
    "pendulum": ("Pendulum-v1", ("theta", "theta_dot"), ((-9, -8), (9, 8)), ((-PI, -1), (PI, 1))),
    "acrobot": (
        "Acrobot-v1",
        ("theta1", "theta2", "theta1_dot", "theta2_dot"),
        ((-PI, -PI, -4 * PI, -9 * PI), (PI, PI, 4 * PI, 9 * PI)),
        ((-0.1,) * 4, (0.1,) * 4),
    ),
}
COUNT = 3000
every_world = pytest.mark.parametrize("name", WORLDS)


def gymnasium_step(env, state, action):
    raw = env.unwrapped
    raw.state = np.array(state, np.float64)
    if hasattr(raw, "steps_beyond_terminated"):
        raw.steps_beyond_terminated = None
    observation, reward, terminated, _, _ = raw.step(action)
    return np.asarray(observation, np.float64), float(reward), bool(terminated), np.array(raw.state)


def assert_float32(got, expected):
    """Equal to float32, where a fast acrobot may amplify rounding (it turns by 5 radians in a step)."""
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)
    assert np.isclose(got, expected, rtol=1e-5, atol=1e-5).mean() > 0.998


@every_world
def test_a_step_from_thousands_of_states_is_gymnasiums(name):
    peer, fields, bounds, _ = WORLDS[name]
    draw = np.random.default_rng(7)
    states = draw.uniform(*bounds, (COUNT, len(fields))).astype(np.float32)
    worlds, env = make(name, num_worlds=COUNT), gymnasium.make(peer)
    env.reset(seed=0)
    worlds.set_state(**dict(zip(fields, states.T)))
    discrete = isinstance(env.action_space, gymnasium.spaces.Discrete)
    if discrete:
        actions = draw.integers(0, env.action_space.n, COUNT)
    else:
        actions = (draw.uniform(-1, 1, (COUNT, 1)) * env.action_space.high).astype(np.float32)
    step = worlds.step(actions if discrete else actions.T)
    expected = [gymnasium_step(env, s, a) for s, a in zip(states, actions)]
    observation, reward, terminated, after = (np.array(part) for part in zip(*expected))
    assert_float32(np.asarray(step.final_observation).T, observation)
    np.testing.assert_allclose(step.reward, reward, rtol=2e-5, atol=2e-5)
    np.testing.assert_array_equal(step.terminated, terminated)
    assert not np.asarray(step.truncated).any()
    assert 0 < terminated.sum() < COUNT or name == "pendulum"
    state = worlds.get_state()
    ours = np.stack([state[f] for f in fields], axis=1)[~terminated]
    assert_float32(ours, after[~terminated])


@every_world
def test_the_time_limit_is_gymnasiums(name):
    peer = WORLDS[name][0]
    limit = gymnasium.make(peer).spec.max_episode_steps
    worlds = make(name, num_worlds=2)
    worlds.set_state(step=[limit - 2, limit - 1])
    step = worlds.step(worlds.sample_actions())
    assert step.truncated.tolist() == [False, True]
    assert worlds.get_state()["step"].tolist() == [limit - 1, 0]


@every_world
def test_resets_cover_gymnasiums_range(name):
    peer, fields, _, (lows, highs) = WORLDS[name]
    state = make(name, num_worlds=4000).get_state()
    env = gymnasium.make(peer)
    theirs = []
    for seed in range(100):
        env.reset(seed=seed)
        theirs.append(np.array(env.unwrapped.state))
    for field, low, high, their in zip(fields, lows, highs, np.array(theirs).T):
        values = state[field]
        assert low <= values.min() and values.max() <= high
        assert low <= their.min() and their.max() <= high
        if low < high:
            assert values.min() < low + 0.01 * (high - low) and values.max() > high - 0.01 * (high - low)
            counts, _ = np.histogram(values, bins=10, range=(low, high))
            assert ((counts - 400) ** 2 / 400).sum() < 27.9  # chi-square, 9 degrees of freedom, p = 0.001


@every_world
def test_spaces_have_gymnasiums_sizes(name):
    worlds, env = make(name, num_worlds=1), gymnasium.make(WORLDS[name][0])
    assert worlds.observation_space.size == env.observation_space.shape[0]
    if isinstance(env.action_space, gymnasium.spaces.Discrete):
        assert worlds.action_space.n == env.action_space.n
    else:
        np.testing.assert_array_equal(worlds.action_space.lows, env.action_space.low)
        np.testing.assert_array_equal(worlds.action_space.highs, env.action_space.high)
