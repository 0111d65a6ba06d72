"""Films keep even time, show what there is to see, and refuse at once what they cannot show."""

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from training_worlds import Walker

from slipstream import physics
from slipstream.envs import Worlds
from slipstream.envs.drawing import BLUE, Circle, Picture
from slipstream.envs.registry import NAMES, make_env
from slipstream.envs.rules import RulesError
from slipstream.training import film
from slipstream.training.film import FilmError, write_film
from slipstream.training.robot_film import SKY, RobotFilm
from slipstream.training.world_film import DrawnFilm, make_film, refuse_impossible

SLIDER = """
<mujoco><worldbody><geom type="plane" size="0 0 1"/>
<body pos="0 0 0.5"><joint type="slide" axis="1 0 0"/><geom size="0.1"/></body></worldbody></mujoco>"""


class Walk(Walker):
    """A walker that can be seen."""

    playback_step = 0.02

    def draw(self, state):
        return Picture([Circle((float(state["x"][0]), 0.0), 0.2, BLUE)], (-1.0, -0.5, 1.0, 0.5))


def walk(count: int) -> list[dict]:
    return [{"x": np.array([0.01 * i]), "step": np.array([i])} for i in range(count)]


def reddish(frame: np.ndarray) -> int:
    """How many pixels are clearly red."""
    red, green, blue = (frame[..., i].astype(int) for i in range(3))
    return int(((red > 80) & (red > 2 * green) & (red > 2 * blue)).sum())


def durations(file: Path) -> list[int]:
    with Image.open(file) as gif:
        found = []
        for number in range(gif.n_frames):
            gif.seek(number)
            found.append(gif.info["duration"])
    return found


def still(env, **fields) -> list[dict]:
    return [{"qpos": np.array(env.model.qpos0)[:, None], **fields}]


def test_a_target_is_drawn_where_it_is():
    env = make_env("humanoid-flagrun")

    def red_pixels(**fields) -> int:
        with closing(make_film(env, still(env, **fields), 64, 48)) as shown:
            return reddish(shown.frame(0))

    bare = red_pixels()
    assert red_pixels(target=np.array([[0.6], [2.0]])) > bare + 10  # the camera looks along y; beside the robot
    assert red_pixels(target=np.array([[500.0], [0.0]])) == bare


def test_a_robot_moves_evenly_however_long_its_steps_are():
    env = make_env("ant")
    env.time_step = 0.015  # 25 frames in a second are 2.67 steps apart
    states = []
    for i in range(41):
        pose = np.array(env.model.qpos0)
        angle = 0.03 * i
        pose[0], pose[3:7] = 0.1 * i, [np.cos(angle / 2), 0.0, 0.0, np.sin(angle / 2)]
        states.append({"qpos": pose[:, None].astype(np.float32)})
    with closing(RobotFilm(env, states, 32, 32)) as shown:
        assert shown.frame_time == 40 and len(shown) == 16  # of 40 steps, 0.6 seconds
        poses = np.stack([shown._pose(moment) for moment in shown.moments])
    np.testing.assert_allclose(np.diff(poses[:, 0]), 0.1 * 40 / 15, rtol=1e-4)
    turned = 2.0 * np.arctan2(poses[:, 6], poses[:, 3])
    np.testing.assert_allclose(np.diff(turned), 0.03 * 40 / 15, rtol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(poses[:, 3:7], axis=1), 1.0, rtol=1e-6)


def test_making_a_film_leaves_the_model_as_it_was():
    env = make_env("hopper")
    before = env.model.mujoco.vis.quality.shadowsize
    with closing(make_film(env, still(env), 700, 500)) as shown:
        assert shown.frame(0).shape == (500, 700, 3)
    assert env.model.mujoco.vis.quality.shadowsize == before


@pytest.mark.parametrize(
    ("playback_step", "frame_time", "every"),
    [(0.02, 40, 2), (0.04, 40, 1), (0.05, 50, 1), (0.1, 100, 1), (1 / 60, 30, 2), (0.001, 40, 40), (1.0, 1000, 1)],
)
def test_a_drawn_world_is_seen_every_so_many_steps_at_a_time_that_gif_can_hold(playback_step, frame_time, every):
    env = Walk()
    env.playback_step = playback_step
    shown = DrawnFilm(env, walk(81), 32, 32)
    assert shown.frame_time == frame_time
    assert shown.moments.tolist() == list(range(0, 81, every))


def test_every_frame_of_a_gif_is_seen_equally_long(tmp_path):
    write_film(make_film(Walk(), walk(41), 40, 20), tmp_path / "new" / "film.gif")
    assert durations(tmp_path / "new" / "film.gif") == [40] * 21
    assert [f.name for f in (tmp_path / "new").iterdir()] == ["film.gif"]


@pytest.mark.filterwarnings("ignore:os.fork")  # reading it needs a process too
def test_an_mp4_runs_as_fast_as_the_world(tmp_path):
    imageio = pytest.importorskip("imageio.v2")
    write_film(make_film(Walk(), walk(41), 51, 23), tmp_path / "film.mp4")
    with imageio.get_reader(tmp_path / "film.mp4") as reader:
        found = reader.get_meta_data()
        assert found["fps"] == 25 and found["size"] == (50, 22)
        assert reader.count_frames() == 21


def test_a_gif_keeps_its_colours(tmp_path):
    film_of_walk = make_film(Walk(), walk(3), 60, 40)
    write_film(film_of_walk, tmp_path / "film.gif")
    with Image.open(tmp_path / "film.gif") as gif:
        written = np.asarray(gif.convert("RGB")).astype(int)
    assert np.abs(written - film_of_walk.frame(0)).mean() < 1.0


def test_progress_is_shown_frame_by_frame(tmp_path):
    seen = []

    def show(numbers):
        for number in numbers:
            seen.append(number)
            yield number

    write_film(make_film(Walk(), walk(9), 32, 32), tmp_path / "film.gif", show)
    assert seen == [0, 1, 2, 3, 4]


def test_a_film_that_fails_leaves_nothing_behind(tmp_path):
    class Broken(Walk):
        def draw(self, state):
            return None if state["step"][0] == 2 else super().draw(state)

    with pytest.raises(RulesError, match=r"Broken.draw returned no picture"):
        write_film(make_film(Broken(), walk(5), 32, 32), tmp_path / "film.gif")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_filmed_is_refused_before_it_is_played(monkeypatch):
    with pytest.raises(FilmError, match=r"nothing to see of Walker.*draw\(state\)"):
        refuse_impossible(Walker(), Path("film.gif"))
    with pytest.raises(FilmError, match=r"'film.avi'"):
        refuse_impossible(Walk(), Path("film.avi"))
    monkeypatch.setattr(film.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FilmError, match=r"pip install slipstream-rl\[video\]"):
        refuse_impossible(Walk(), Path("film.mp4"))
    refuse_impossible(Walk(), Path("film.gif"))


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "taken").touch()
    with pytest.raises(FilmError, match=r"Could not write .*taken/film.gif: .*(exists|directory)"):
        refuse_impossible(Walk(), tmp_path / "taken" / "film.gif")
    (tmp_path / "film.gif").mkdir()
    with pytest.raises(FilmError, match=r"Could not write .*film.gif: .*directory"):
        write_film(make_film(Walk(), walk(3), 32, 32), tmp_path / "film.gif")
    assert sorted(f.name for f in tmp_path.iterdir()) == ["film.gif", "taken"]


def test_a_renderer_that_does_not_start_names_the_command_that_installs_one(monkeypatch):
    import mujoco

    def fail(*size):
        raise RuntimeError("no display")

    monkeypatch.setattr(mujoco, "GLContext", fail)
    with pytest.raises(FilmError, match=r"no display.*apt-get install"):
        refuse_impossible(make_env("hopper"), Path("film.gif"))


def test_a_model_without_light_sky_or_colours_is_seen_all_the_same():
    env = make_env("inverted-pendulum")
    with closing(make_film(env, still(env), 60, 40)) as shown:
        frame = shown.frame(0)
    assert frame[0, 0].tolist() == list(SKY) and frame.mean() > 100


def test_lines_on_a_bare_floor_show_that_a_robot_moves(tmp_path):
    (tmp_path / "slider.xml").write_text(SLIDER)
    model = physics.load(str(tmp_path / "slider.xml"))
    env = SimpleNamespace(model=model, time_step=0.04, camera=(3.0, -30.0), show=lambda state: None)
    states = [{"qpos": np.array([[x]])} for x in (0.0, 0.5, 1.0)]
    with closing(RobotFilm(env, states, 60, 40)) as shown:
        first, half_a_metre_on, a_metre_on = (shown.frame(i).astype(int) for i in range(3))
    # The camera follows, so only the lines move; they are a metre apart.
    assert np.abs(first - half_a_metre_on).max() > 20
    assert np.abs(first - a_metre_on).max() < 10


@pytest.mark.parametrize(
    "name", [n for n, where in NAMES.items() if "locomotion" not in where and "dm_control" not in where]
)
def test_worlds_without_a_robot_draw_what_happens(name):
    env = make_env(name)
    worlds = Worlds(env, 1, seed=1, backend="scalar")
    worlds.reset()
    states = [worlds.get_state()]
    for _ in range(6):
        worlds.step(worlds.sample_actions())
        states.append(worlds.get_state())
    shown = make_film(env, states, 96, 64)
    first, last = shown.frame(0), shown.frame(len(shown) - 1)
    assert len(np.unique(first.reshape(-1, 3), axis=0)) > 4
    assert (first != last).any()
