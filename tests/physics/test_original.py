"""MuJoCo's engine in the place of ours: it is MuJoCo's, and it does what ours does."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from slipstream.envs.registry import make, make_env
from slipstream.physics.original import OriginalEngine


def original(name: str, worlds: int, **options):
    env = make_env(name, **options)
    env.physics_step = OriginalEngine(env.model)
    return make(env, worlds, 0, "scalar")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("hopper", {}),
        ("dm-hopper-stand", {}),
        ("ant", {"random_mass": 0.2, "random_friction": 0.3, "random_push": 1.0, "push_interval": 0.1}),
        ("legged", {"model": "biped", "integrator": "euler"}),
    ],
)
def test_both_engines_go_the_same_way(name, options):
    theirs, ours = original(name, 3, **options), make(name, 3, **options)
    rng = np.random.default_rng(0)
    for _ in range(8):
        action = rng.uniform(-0.3, 0.3, (theirs.env.model.nu, 3))
        moved, expected = theirs.step(action), ours.step(action)
    assert theirs.get_state()["qpos"] == pytest.approx(ours.get_state()["qpos"], abs=2e-4)
    assert np.asarray(moved.reward) == pytest.approx(np.asarray(expected.reward), abs=2e-2)


def test_its_steps_are_mujocos():
    worlds = original("hopper", 1)
    env: object = worlds.env
    m, data = env.model.mujoco, mujoco.MjData(env.model.mujoco)
    state = worlds.get_state()
    data.qpos, data.qvel, data.ctrl = state["qpos"][:, 0], state["qvel"][:, 0], [0.3, -0.2, 0.1]
    mujoco.mj_step(m, data, nstep=env.frame_skip)
    worlds.step(np.array([[0.3], [-0.2], [0.1]]))
    assert worlds.get_state()["qpos"][:, 0] == pytest.approx(data.qpos, abs=1e-6)


def test_it_stands_on_the_ground_of_each_world():
    """On a level of its own each; ours and MuJoCo's height fields differ a little under round feet."""
    options = {"ground": "rough", "levels": 4, "start_level": 3}
    theirs, ours = original("legged", 2, **options), make("legged", 2, **options)
    for worlds in (theirs, ours):
        qpos = worlds.get_state()["qpos"].copy()
        qpos[:2] = [[5.0, -6.0], [4.0, 3.0]]
        qpos[2] = [0.8, 0.8]
        worlds.set_state(qpos=qpos, qvel=np.zeros((18, 2)), level=np.array([3, 1]), variant=np.array([1, 2]))
        for _ in range(25):
            worlds.step(np.zeros((12, 2)))
    height = theirs.get_state()["qpos"][2]
    assert height == pytest.approx(ours.get_state()["qpos"][2], abs=0.05)
    assert np.abs(height - theirs.env.anatomy.height).max() > 0.05  # it is not the plane
