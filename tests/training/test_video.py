"""Films show where the robot should go."""

import dataclasses

import numpy as np

from slipstream.envs.registry import make_env
from slipstream.training.video import Episode, render


def reddish(frame: np.ndarray) -> int:
    """How many pixels are clearly red."""
    red, green, blue = (frame[..., i].astype(int) for i in range(3))
    return int(((red > 80) & (red > 2 * green) & (red > 2 * blue)).sum())


def test_a_target_is_drawn_where_it_is():
    env = make_env("humanoid-flagrun")
    standing = np.array([env.model.qpos0])
    behind_it = Episode(standing, np.array([[0.0, 2.0]]))  # the camera looks along y
    without = dataclasses.replace(behind_it, target=None)
    far_aside = dataclasses.replace(behind_it, target=np.array([[500.0, 0.0]]))
    shown, bare, aside = (reddish(render(env, e, 64, 48)[0]) for e in (behind_it, without, far_aside))
    assert shown > bare + 10
    assert aside == bare
