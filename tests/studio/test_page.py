"""The page in a real browser: it loads, robots move, buttons do what they say, and nothing breaks it."""

import json
import shutil

import pytest
from browser import Viewer, until

from conftest import watching

CHARTS = "() => Object.values(window.__viserTestpoints.uplots).map(({chart}) => [chart.series.map(s => s.label), \
chart.data.map(d => Array.from(d))])"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, robot_run, drawn_run):
    """Both runs in one folder, which tests may change."""
    path = tmp_path_factory.mktemp("runs")
    shutil.copytree(drawn_run, path / "cartpole")
    shutil.copytree(robot_run, path / "hopper")  # the last one is shown first
    (path / "hopper" / "config.json").touch()
    return path


@pytest.fixture(scope="module")
def address(folder):
    with watching(str(folder), "--worlds", "4") as found:
        yield found


@pytest.fixture(scope="module")
def viewer(browser, address):
    viewer = Viewer(browser, address)
    yield viewer
    viewer.close()


@pytest.fixture(autouse=True)
def no_complaints(viewer):
    yield
    assert viewer.errors == []


def settled(viewer) -> bytes:
    """The picture, when it no longer changes."""
    seen = [viewer.picture()]

    def same() -> bool:
        seen.append(viewer.picture())
        return seen[-1] == seen[-2]

    until(same, "the picture to stay the same")
    return seen[-1]


def test_a_robot_moves_until_it_is_paused(viewer):
    viewer.wait_for("hopper", "at play: weights of step 192", "m/s")
    first = viewer.picture()
    until(lambda: viewer.picture() != first, "the robot to move")
    pause = viewer.page.get_by_label("pause")
    pause.check()
    still = settled(viewer)
    viewer.page.get_by_role("button", name="one step").click()
    until(lambda: viewer.picture() != still, "a single step")
    settled(viewer)


def speed(viewer) -> float:
    (word,) = [line for line in viewer.text().splitlines() if line.endswith("m/s") and "episode" in line]
    return float(word.split()[-2])


def test_a_push_changes_the_motion(viewer):
    before, still = speed(viewer), settled(viewer)
    viewer.page.get_by_role("button", name="this robot").click()
    after = until(lambda: speed(viewer) != before and speed(viewer), "the robot to be faster")
    assert abs(after - before) > 1.0
    viewer.page.get_by_role("button", name="one step").click()
    until(lambda: viewer.picture() != still, "the robot to move")
    viewer.page.get_by_label("pause").uncheck()


def test_the_curves_are_those_of_the_run(viewer, robot_run):
    viewer.page.get_by_role("tab", name="Curves").click()
    text = viewer.wait_for("mean return of an episode", "steps per second", "what the time goes to")
    assert "hopper, evaluated" in text and "Reports of the world" in text
    rows = [json.loads(line) for line in (robot_run / "metrics.jsonl").read_text().splitlines()]
    charts = until(lambda: viewer.page.evaluate(CHARTS), "charts")
    (names, data), *_ = [chart for chart in charts if "hopper, evaluated" in chart[0]]
    evaluated = data[names.index("hopper, evaluated")]
    assert evaluated == pytest.approx([row["evaluation/hopper"] for row in rows], rel=1e-6)
    assert data[0] == [row["step"] for row in rows]
    viewer.page.get_by_role("tab", name="Settings").click()
    viewer.wait_for("hopper.hidden", "num_worlds")
    viewer.page.get_by_role("tab", name="Play").click()


def offered(viewer, value: str) -> bool:
    """Whether a run can be chosen."""
    field = viewer.page.get_by_label("run", exact=True).first
    field.click()
    count = viewer.page.get_by_role("option", name=value, exact=True).count()
    field.press("Escape")
    return count > 0


def choose(viewer, value: str, label: str = "run") -> None:
    viewer.page.get_by_label(label, exact=True).first.click()
    viewer.page.get_by_role("option", name=value, exact=True).click()


def test_runs_can_be_switched_by_one_viewer_and_seen_by_another(viewer, browser, address):
    other = Viewer(browser, address)
    other.wait_for("hopper:")
    before = viewer.picture()
    choose(viewer, "cartpole")
    for who in (viewer, other):
        who.wait_for("cartpole: stopped, 192 steps", "at play: weights of step 192")
        until(lambda who=who: "m/s" not in who.text(), "the speed of a robot to be gone")
    until(lambda: viewer.picture() != before, "another scene")
    assert other.errors == []
    other.close()
    choose(viewer, "hopper")
    viewer.wait_for("hopper: stopped, 192 steps", "at play", "m/s")


def test_a_run_that_disappears_is_told_and_plays_on_and_comes_back(viewer, folder):
    choose(viewer, "hopper")
    viewer.wait_for("hopper: stopped, 192 steps", "at play", "m/s")
    (folder / "hopper").rename(folder.parent / "away")
    viewer.wait_for("is gone. Its last policy plays on.")
    first = viewer.picture()
    until(lambda: viewer.picture() != first, "the robot to move")
    (folder.parent / "away").rename(folder / "hopper")
    until(lambda: "is gone" not in viewer.text(), "the run to be back")


def test_a_reload_shows_the_same(viewer):
    viewer.page.reload()
    viewer.wait_for("hopper: stopped, 192 steps", "m/s")
    first = viewer.picture()
    until(lambda: viewer.picture() != first, "the robot to move")


def test_a_damaged_run_is_told_in_one_line(viewer, folder):
    shutil.copytree(folder / "cartpole", folder / "damaged")
    for actor in (folder / "damaged" / "checkpoints").glob("*/actor.safetensors"):
        actor.write_bytes(b"nothing")
    until(lambda: offered(viewer, "damaged"), "the run to be listed")
    choose(viewer, "damaged")
    viewer.wait_for("damaged", "is damaged: actor.safetensors")
    choose(viewer, "hopper")
    viewer.wait_for("at play", "m/s")
