"""Policies at play on a page that nobody looks at: all kinds of worlds, and what viewers can do to them."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import slipstream
from conftest import train_small
from slipstream.runs.directory import RunDirectory
from slipstream.studio.panel import BEST, NEWEST, Panel
from slipstream.studio.playing import AHEAD, Playing, steered
from slipstream.studio.screens import TradingScene
from slipstream.studio.server import Studio

WORLDS = """
from dataclasses import dataclass
import drjit as dr
from slipstream import Box, Discrete, Env, Group

@dataclass
class State:
    x: float

class Hidden(Env):
    max_steps = 6
    groups = (Group("walker", Box(2), Discrete(2)),)

    def reset(self, rng):
        return State(rng.uniform())

    def step(self, state, action, rng):
        return State(state.x + dr.select(action == 1, 0.1, -0.1)), 1.0, False

    def observe(self, state):
        return state.x, 2.0 * state.x

class Broken(Hidden):
    def draw(self, state):
        raise RuntimeError("there is no more paint")
"""


class Nobody:
    """Who wishes for nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


@pytest.fixture(scope="module")
def server():
    import viser

    server = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    yield server
    server.stop()


@pytest.fixture
def panel(server):
    server.gui.reset()
    return Panel(server, Nobody())  # type: ignore[arg-type]


@pytest.fixture
def play(server, panel):
    """Puts a run on the page."""
    made: list[Playing] = []

    def begin(run: Any, worlds: int | None = 4, which: str = "latest", saved_source: bool = False) -> Playing:
        made.append(Playing(server, panel, RunDirectory.open(run), worlds, which, saved_source))
        return made[-1]

    yield begin
    for playing in made:
        playing.close()


@pytest.fixture(scope="module")
def own_worlds(tmp_path_factory):
    path = tmp_path_factory.mktemp("own")
    (path / "worlds.py").write_text(WORLDS)
    train_small(f"{path}/worlds.py:Hidden", path / "Hidden")
    shutil.copytree(path / "Hidden", path / "Broken")
    file = path / "Broken" / "config.json"
    file.write_text(file.read_text().replace("worlds.py:Hidden", "worlds.py:Broken"))
    return path


def test_robots_stand_where_mujoco_puts_them(play, robot_run):
    playing = play(robot_run)
    playing.advance(0.1)
    playing.one_step()
    scene: Any = playing.scene
    model = playing.stage.arena.env.model.mujoco
    data = mujoco.MjData(model)
    for world in range(4):
        data.qpos[:] = playing.after["qpos"][:, world]
        mujoco.mj_kinematics(model, data)
        root = data.xpos[1, :2] if world else np.zeros(2)  # the one that is followed is in the middle
        shifts = []
        for part, handle in zip(scene.parts, scene.handles):
            assert np.abs(handle.batched_wxyzs[world] - data.xquat[part.body]).max() < 1e-5
            shifts.append(handle.batched_positions[world] - data.xpos[part.body])
        assert np.ptp(shifts, axis=0).max() < 1e-4  # all parts of a robot are moved together
        assert np.abs(root + shifts[0][:2] if world else shifts[0][:2] + data.xpos[1, :2]).max() <= scene.field.max()
        assert shifts[0][2] == pytest.approx(0.0, abs=1e-6)


def test_followed_robots_are_in_the_middle_and_have_their_own_colour(play, robot_run):
    playing = play(robot_run)
    scene: Any = playing.scene
    playing.follow(3)
    torso = next(i for i, part in enumerate(scene.parts) if part.body == 1)
    assert np.abs(scene.handles[torso].batched_positions[3, :2]).max() < 1e-5
    colours = scene.handles[torso].batched_colors
    light = 255.0 * (np.array(scene.parts[torso].colour) / 255.0) ** 2.2
    assert colours[3] == pytest.approx(light, abs=0.6) and colours[0] != pytest.approx(light, abs=3.0)


def test_poses_between_two_steps_are_between_them(play, robot_run):
    playing = play(robot_run)
    playing.one_step()
    scene: Any = playing.scene
    scene.following = False
    places = []
    for share in (0.0, 0.5, 1.0):
        scene.show(playing.before, playing.after, share, np.zeros(4, bool))
        places.append(np.array(scene.handles[1].batched_positions))
    assert np.abs(places[2] - places[0]).max() > 1e-4
    assert places[1] == pytest.approx(0.5 * (places[0] + places[2]), abs=1e-5)
    scene.show(playing.before, playing.after, 0.5, np.ones(4, bool))  # another episode: nothing is in between
    assert scene.handles[1].batched_positions == pytest.approx(places[0], abs=1e-6)


def test_a_push_moves_who_is_pushed_and_nobody_else(play, robot_run):
    playing = play(robot_run)
    arena = playing.stage.arena
    start = arena.worlds.save()
    playing.one_step()
    unpushed = playing.after["qpos"]
    arena.worlds.restore(start)
    arena.change(step=arena.state()["step"])  # what is seen is what was seen then
    playing.push(np.array([3.0, 0.0]), [2])
    assert playing.after["qvel"][0, 2] == pytest.approx(arena.state()["qvel"][0, 2])
    playing.one_step()
    moved = playing.after["qpos"][0] - unpushed[0]
    assert moved[2] == pytest.approx(3.0 * arena.step_time, rel=0.5)
    assert np.abs(moved[[0, 1, 3]]).max() < 1e-6
    playing.push(np.array([0.0, 1.0]), None)  # in a plane a push from the side goes forward
    assert (playing.after["qvel"][0] > 0.5).all()


def test_who_is_steered_has_its_target_ahead():
    state = {"target": np.zeros((2, 3)), "qpos": np.arange(12.0).reshape(4, 3)}
    target = steered(state, 1, 90.0)
    assert target[:, 1] == pytest.approx([1.0, 4.0 + AHEAD]) and not target[:, [0, 2]].any()


def test_time_goes_as_fast_as_it_is_told(play, robot_run):
    playing = play(robot_run)
    time_step = playing.stage.arena.step_time
    steps = []
    playing.stage.step = lambda step=playing.stage.step: (steps.append(1), step())[1]
    for speed, seconds, expected in ((1.0, 3.0 * time_step, 3), (0.1, 5.0 * time_step, 1), (0.1, 4.0 * time_step, 0)):
        steps.clear()
        playing.speed = speed
        playing.advance(seconds)
        assert len(steps) == expected
    playing.speed = 1.0
    steps.clear()
    playing.advance(1000.0 * time_step)  # a slow machine does not try to catch up
    assert len(steps) <= 5


def test_drawn_worlds_are_drawn_as_they_draw_themselves(play, drawn_run):
    playing = play(drawn_run, 9)
    playing.one_step()
    scene: Any = playing.scene
    blue = np.array(scene.handles["#2e73b8"].vertices)  # the carts, and the frame around the first one
    x = playing.after["x"]
    assert len(scene.frames) == 9 and np.isfinite(blue).all()
    for world in range(9):
        frame = scene.frames[world]
        cart = frame.placed(np.array([[x[world] - 0.25, 0.08]]), 0.0)[0]
        assert np.abs(blue - cart).max(axis=1).min() < 1e-4


def test_worlds_without_a_picture_are_traced(play, panel, own_worlds):
    playing = play(own_worlds / "Hidden", 2)
    for _ in range(8):
        playing.one_step()
    scene: Any = playing.scene
    step, first, second = scene.traces.handle.data
    assert len(step) == 9 and panel.extra.visible
    assert second == pytest.approx(2.0 * first)
    assert "return" in playing.describe() and "m/s" not in playing.describe()


def test_a_world_whose_file_is_gone_is_played_as_its_run_has_kept_it(play, own_worlds):
    file = own_worlds / "worlds.py"
    file.rename(own_worlds / "elsewhere.py")
    try:
        with pytest.raises(ValueError, match=r"worlds\.py is gone. --saved-source takes the copy"):
            play(own_worlds / "Hidden")
        playing = play(own_worlds / "Hidden", saved_source=True)
        playing.one_step()
        assert playing.after["step"].tolist() == [1, 1, 1, 1]
    finally:
        (own_worlds / "elsewhere.py").rename(file)


def test_an_environment_of_gymnasium_draws_itself(play, tmp_path):
    run = tmp_path / "gym"
    from slipstream.cli.main import OK, main

    small = ("--samplers", "1", "--envs-per-sampler", "1", "--steps", "200", "--no-tune", "--quiet")
    assert main(["train", "gym:Pendulum-v1", "--run", str(run), *small]) == OK
    playing = play(run)
    scene: Any = playing.scene
    before = scene.handle.image
    for _ in range(3):
        playing.one_step()
    assert before.shape == scene.handle.image.shape == (500, 500, 3) and (before != scene.handle.image).any()
    assert not playing.can_push


def test_a_market_shows_what_the_portfolio_is_worth(server, panel):
    worlds = slipstream.make("stock-trading", num_worlds=3)
    worlds.reset()
    scene = TradingScene(server, panel, worlds.env, 3, worlds.get_state())
    gain = 0.0
    for step in range(6):
        if step:
            gain += float(worlds.step(worlds.sample_actions()).reward[1])  # in percent
        state = worlds.get_state()
        scene.focus = 1
        scene.show(state, state, 1.0, np.zeros(3, bool))
    steps, mine, _ = scene.equity.handle.data
    assert steps.tolist() == [0, 1, 2, 3, 4, 5] and mine[0] == pytest.approx(100.0)
    assert mine[-1] - mine[0] == pytest.approx(gain, abs=1e-2)
    shares = [values[-1] for values in scene.positions.handle.data[1:]]
    assert min(shares) >= 0.0 and sum(shares) <= 100.0 + 1e-6
    scene.close()


def test_newer_weights_are_taken_up_while_the_worlds_go_on(play, robot_run, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(robot_run, run)
    later = max((run / "checkpoints").iterdir())
    later.rename(tmp_path / later.name)
    playing = play(run)
    before = playing.stage.checkpoint
    playing.one_step()
    assert not playing.stage.take_newer()
    (tmp_path / later.name).rename(later)
    assert playing.stage.take_newer() and playing.stage.checkpoint.number > before.number
    playing.one_step()
    config = json.loads((run / "config.json").read_text())
    assert not playing.stage.is_outdated()
    (run / "config.json").write_text(json.dumps(config | {"seed": 77}))
    assert playing.stage.is_outdated()


def test_earlier_weights_can_be_chosen(play, panel, robot_run):
    first = min((robot_run / "checkpoints").iterdir()).name
    panel.offer_checkpoints([first])
    assert panel.checkpoint.options == (NEWEST, BEST, first)
    panel.checkpoint.value = first
    assert panel.which == first
    playing = play(robot_run, 2, panel.which)
    assert playing.stage.checkpoint.name == first and not playing.stage.take_newer()


class Somebody:
    """A studio's server with a viewer, without a browser."""

    def __init__(self, server: Any):
        self._server = server

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    def get_clients(self) -> dict:
        class Client:
            camera: Any = type("Camera", (), {})()

        return {0: Client()}


def test_what_goes_wrong_is_one_line_on_the_page(own_worlds, tmp_path):
    studio = Studio(own_worlds / "Broken", port=0, worlds=1)
    studio.server = studio.panel.server = Somebody(studio.server)
    try:
        studio._look_around()
        studio._look_around()
        assert studio.playing is None
        text = studio.panel.trouble.content
        assert "RuntimeError: there is no more paint" in text and re.search(r"worlds\.py:\d+, in draw", text)
        assert "Broken" in studio.panel.status.content
    finally:
        studio.close()


def test_a_page_waits_for_runs_that_are_not_there_yet(robot_run, tmp_path):
    studio = Studio(tmp_path / "later", port=0, worlds=1)
    studio.server = Somebody(studio.server)
    try:
        studio._look_around()
        assert "There is no run in" in studio.panel.status.content
        shutil.copytree(robot_run, tmp_path / "later" / "one")
        studio._look_around()
        assert studio.run is not None and studio.run.name == "one" and studio.playing is not None
        shutil.rmtree(tmp_path / "later" / "one" / "checkpoints")
        studio._look_around()
        assert "no checkpoint yet" in studio.panel.trouble.content and studio.playing is not None
    finally:
        studio.close()


def test_the_code_of_the_manual_runs(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "studio.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(code, {})


def test_a_walking_robot_does_as_viewers_say(play, panel, tmp_path):
    playing = play(train_small("legged", tmp_path / "walker"))
    assert panel.commanding.visible and not panel.steering.visible
    playing.follow(2)
    own = playing.after["command"].copy()
    playing.one_step()
    assert np.array_equal(playing.after["command"], own)
    ahead, left, turn = panel.command_speeds
    ahead.value, left.value, turn.value = 0.5, -0.25, 0.75
    panel.command.value = True
    playing.one_step()
    assert playing.after["command"][:, 2] == pytest.approx([0.5, -0.25, 0.75])
    assert np.array_equal(playing.after["command"][:, :2], own[:, :2])


def test_keys_change_the_command_within_its_bounds(play, panel, tmp_path):
    play(train_small("legged", tmp_path / "walker"))
    ahead, left, _ = panel.command_speeds
    assert len(panel._keys) == 7
    for _ in range(9):
        panel._nudge(ahead, 1)
    panel._nudge(left, -1)
    assert panel.wanted_command == pytest.approx((1.0, -0.125, 0.0))
    panel._stand()
    assert panel.wanted_command == (0.0, 0.0, 0.0)
