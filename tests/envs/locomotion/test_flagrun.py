"""Humanoids that run from flag to flag, and that get up first: when flags move, how episodes begin and end."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from running import Reference

from slipstream.envs.registry import make, make_env

FLAGS = ("humanoid-flagrun", "humanoid-flagrun-harder")
HARDER = "humanoid-flagrun-harder"
OTHERS = ("right_shin1", "left_shin1", "right_hand", "left_hand")
WORLDS = 48


def idle(worlds):
    return worlds.step(np.zeros((17, worlds.num_worlds)))


def distances(state):
    return np.hypot(*(state["target"] - state["qpos"][:2]))


@pytest.fixture(scope="module", params=FLAGS)
def worlds(request):
    return make(request.param, WORLDS)


def test_flags_are_anywhere_within_40_m():
    state = make("humanoid-flagrun", 4096).get_state()
    far = distances(state)
    assert 2.0 <= far.min() < 3.0 and 39.0 < far.max() <= 40.0
    assert far.mean() == pytest.approx(21.0, abs=0.7)
    x, y = state["target"]
    assert np.abs(np.exp(1j * np.arctan2(y, x)).mean()) < 0.05


def test_a_flag_moves_when_it_is_reached_or_after_180_steps(worlds):
    worlds.reset()
    target = np.full((2, WORLDS), 0.5)
    target[:, 1::2] = [[20.0], [10.0]]
    waited = np.zeros(WORLDS, int)
    waited[3::4] = 179
    worlds.set_state(target=target, waited=waited)
    idle(worlds)
    state = worlds.get_state()
    moved = (state["target"] != target.astype(np.float32)).any(0)
    assert moved.tolist() == ([True, False, True, True] * WORLDS)[:WORLDS]
    assert state["reached"].tolist() == ([1, 0, 1, 0] * WORLDS)[:WORLDS]
    assert (state["waited"] == np.where(moved, 0, 1)).all()
    assert (distances(state)[moved] <= 40.1).all() and distances(state)[moved].std() > 5


def test_a_flag_that_jumps_away_is_not_held_against_the_robot_that_reached_it():
    worlds = make("humanoid-flagrun", WORLDS)
    worlds.set_state(target=np.full((2, WORLDS), 0.4))
    assert np.abs(np.asarray(idle(worlds).reward)).max() < 5
    assert (distances(worlds.get_state()) > 1.9).all()


def test_the_flags_reached_are_reported():
    worlds = make("humanoid-flagrun", 4)
    worlds.set_state(step=np.full(4, 999), reached=np.array([0, 1, 2, 3]))
    idle(worlds)
    report = worlds.episode_statistics.report
    assert (report["flags"], report["reached_a_flag"], report["contacts_left_out"]) == (1.5, 0.75, 0.0)


# Harder.


@pytest.fixture(scope="module")
def starts():
    return make(HARDER, 4608).get_state()


def test_starts_have_their_shares(starts):
    _, x, y, _ = starts["qpos"][3:7]
    axis = 1 - 2 * (x**2 + y**2)  # how upright the torso's axis is
    lies, walks = np.abs(axis) < 1e-3, starts["qvel"][0] > 0
    rises = ~lies & (axis < 0.999)
    plain = ~(lies | walks | rises)
    for share, kind in ((4, lies), (2, walks), (2, rises), (1, plain)):
        assert kind.mean() == pytest.approx(share / 9, abs=0.025)
    assert starts["began_down"][lies].all()
    assert not starts["began_down"][walks | plain].any()


def test_starts_just_touch_the_ground(starts):
    model = make_env(HARDER).model.mujoco
    model.geom_margin[:] = 0.05
    data = mujoco.MjData(model)
    for qpos in starts["qpos"].T[:100]:
        data.qpos[:] = qpos
        mujoco.mj_forward(model, data)
        floor = [c.dist for c in data.contact if 0 in (c.geom1, c.geom2)]
        assert min(floor) == pytest.approx(0.01, abs=1e-4)


@pytest.fixture(scope="module")
def stepped():
    """A step from starts of all kinds, of which everything is known."""
    worlds = make(HARDER, WORLDS, seed=5, random_push=0.0)
    rng = np.random.default_rng(0)
    for _ in range(12):
        worlds.step(rng.uniform(-1, 1, (17, WORLDS)))
    before = worlds.get_state()
    action = rng.uniform(-1, 1, (17, WORLDS)).astype(np.float32)
    outcome = worlds.step(action)
    model = worlds.env.model.mujoco
    states = (before, worlds.get_state())
    pairs = [[Reference(model, s["qpos"][:, i], s["qvel"][:, i]) for s in states] for i in range(WORLDS)]
    return pairs, before["target"], action, outcome


def lift(reference):
    height = 0.7 * reference.data.body("torso").xpos[2] + 0.3 * reference.data.body("pelvis").xpos[2]
    return 2.5 * np.clip(height, 0.0, 1.0)


def test_the_harder_reward_is_the_published_one(stepped):
    pairs, target, action, outcome = stepped
    expected = []
    for i, (before, after) in enumerate(pairs):
        terms = after.rewards("humanoid-run", before, target[:, i], action[:, i])
        down = lift(after) < 2.5
        terms["alive"] = lift(after)
        terms["getting_up"] = 100.0 * (lift(after) - lift(before))
        terms["progress"] *= not down
        terms["energy"] *= 0.2 if down else 1.0
        terms["effort"] *= 0.2 if down else 1.0
        expected.append(sum(terms.values()))
    assert not np.asarray(outcome.terminated).any()
    assert 5 < sum(lift(after) < 2.5 for _, after in pairs) < WORLDS - 5
    assert np.asarray(outcome.reward) == pytest.approx(np.array(expected), abs=5e-3)


def test_knees_and_hands_on_the_ground_are_observed(stepped):
    pairs, target, action, outcome = stepped
    expected = np.array(
        [after.observation("humanoid-run", target[:, i], action[:, i], OTHERS) for i, (_, after) in enumerate(pairs)]
    )
    assert expected[:, -21:-17].any(0).all()
    assert np.asarray(outcome.observation) == pytest.approx(expected.T, abs=1e-3)


def lying(worlds):
    state = worlds.get_state()
    qpos, qvel = state["qpos"], 0 * state["qvel"]
    qpos[2], qpos[3:7] = 0.3, [[np.sqrt(0.5)], [0], [np.sqrt(0.5)], [0]]
    return {"qpos": qpos, "qvel": qvel}


def test_an_episode_ends_after_170_steps_on_the_ground():
    worlds = make(HARDER, 2)
    worlds.set_state(**lying(worlds), ground=np.array([168, 100]))
    assert not np.asarray(idle(worlds).terminated).any()
    assert worlds.get_state()["ground"].tolist() == [169, 101]
    assert np.asarray(idle(worlds).terminated).tolist() == [True, False]


def test_time_on_the_feet_makes_up_for_time_on_the_ground():
    worlds = make(HARDER, 2)
    state = worlds.get_state()
    qpos, qvel = state["qpos"], 0 * state["qvel"]
    qpos[2], qpos[3:7] = 1.4, [[1], [0], [0], [0]]
    worlds.set_state(qpos=qpos, qvel=qvel, ground=np.array([0, 50]))
    idle(worlds)
    state = worlds.get_state()
    assert state["ground"].tolist() == [0, 49]
    assert state["stood"].tolist() == [1, 1]


def test_getting_up_is_reported():
    worlds = make(HARDER, 4)
    worlds.set_state(
        **lying(worlds),
        step=np.full(4, 999),
        stood=np.array([0, 10, 500, 500]),
        began_down=np.array([True, True, True, False]),
        reached=np.array([0, 0, 2, 2]),
    )
    idle(worlds)
    report = worlds.episode_statistics.report
    assert report["began_down"] == 0.75
    assert report["got_up"] == report["got_up_and_reached_a_flag"] == 0.25
    assert report["time_upright"] == pytest.approx(1010 / 4000)


def test_senseless_flags_are_refused():
    with pytest.raises(ValueError, match="flag_distance"):
        make_env("humanoid-flagrun", flag_distance=1.0)
