"""Environments that step together, beside each of them stepping alone."""

from __future__ import annotations

import gym_environments
import numpy as np
import pytest

from slipstream.spaces import Box
from slipstream.training.pipeline.flock import Flock
from slipstream.training.pipeline.simulators import ODDITIES, Oddity, Simulator

LANES = 3


def several(name: str, options: dict, *, strict: bool = False) -> list[Simulator]:
    return [Simulator(name, options, seed, strict=strict) for seed in range(LANES)]


def odd(what: str) -> tuple[str, dict]:
    return f"{gym_environments.__file__}:Countdown", {"odd": what, "steps": 6}


def chosen(space, rng: np.random.Generator) -> np.ndarray:
    """Actions for all lanes, `[components, lanes]`."""
    if isinstance(space, Box):
        return rng.uniform(-1.0, 1.0, (space.size, LANES)).astype(np.float32)
    return np.stack([rng.integers(n, size=LANES, dtype=np.int32) for n in getattr(space, "choices", (2,))])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("gym:Pendulum-v1", {"max_episode_steps": 5}),
        ("gym:HalfCheetah-v5", {"max_episode_steps": 5}),
        ("gym:CartPole-v1", {}),
        (f"{gym_environments.__file__}:Everything", {}),
        (f"{gym_environments.__file__}:Pixels", {}),
        odd("nan"),
        odd("outside"),
        odd("reward"),
    ],
)
def test_a_flock_steps_as_each_of_its_simulators_does_alone(name, options):
    alone, flock = several(name, options), Flock(several(name, options))
    before = flock.reset()
    np.testing.assert_array_equal(before, [s.reset() for s in alone])
    after = np.empty_like(before)
    rng = np.random.default_rng(0)
    for _ in range(30):
        action = chosen(alone[0].action, rng)
        flock.step(action, before, after)
        for lane, simulator in enumerate(alone):
            observation, reward, terminated, truncated = simulator.step(action[:, lane])
            np.testing.assert_array_equal(after[lane], observation)
            assert flock.reward[lane] == np.float32(reward)
            assert (flock.terminated[lane], flock.truncated[lane]) == (terminated, truncated)
            if terminated or truncated:
                after[lane] = flock.begin(lane)
                np.testing.assert_array_equal(after[lane], simulator.reset())
        before, after = after, before
    for oddity in ODDITIES:
        assert flock.oddities(oddity) == sum(s.oddities.get(oddity, 0) for s in alone)


def test_environments_may_keep_the_actions_they_are_given():
    flock = Flock(several(f"{gym_environments.__file__}:Keeper", {}))
    seen = flock.reset()
    for value in (1.0, 2.0):
        flock.step(np.full((1, LANES), value, np.float32), seen, np.empty_like(seen))
    for simulator in flock._simulators:
        assert [float(action[0]) for action in simulator.env.taken] == [1.0, 2.0]


def test_a_wrong_shape_is_an_error_in_a_flock_too():
    flock = Flock(several(*odd("shape")))
    seen = flock.reset()
    with pytest.raises(Oddity, match=r"3 numbers .*has 2"):
        for _ in range(3):
            flock.step(np.zeros((1, LANES), np.float32), seen, np.empty_like(seen))


def test_a_strict_flock_raises_what_it_would_have_counted():
    flock = Flock(several(*odd("nan"), strict=True))
    seen = flock.reset()
    with pytest.raises(Oddity, match="feature 0 is nan"):
        for _ in range(3):
            flock.step(np.zeros((1, LANES), np.float32), seen, np.empty_like(seen))
