"""The page: who watches, what is played, and how both come together.

Everything happens in one thread: viewers' wishes are queued, and carried out between two frames.
"""

from __future__ import annotations

import contextlib
import io
import queue
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.envs.extras import ExtraMissing
from slipstream.runs.checkpoint import checkpoint_names
from slipstream.runs.directory import RunError
from slipstream.runs.metrics import as_columns
from slipstream.studio.catalogue import Catalogue, Run
from slipstream.studio.panel import ALL, NOTHING, OVER, PUSHES, Panel
from slipstream.studio.playing import Playing
from slipstream.studio.ports import HOST, choose_port
from slipstream.studio.scene import ROOT, paint_sky
from slipstream.studio.standings import read_agents

FRAME = 1.0 / 30.0
"""Seconds between two frames."""
GLANCE = 1.0
"""Seconds between two looks at the run's directory."""
REST = 0.1
"""Seconds between two looks for viewers, while there are none: then nothing is played."""


class Studio:
    """A page that shows the runs of a directory.

    Attributes:
        address: where it is, for a browser.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        host: str = HOST,
        port: int | None = None,
        worlds: int | None = None,
        saved_source: bool = False,
        on_play: Callable[[], None] = lambda: None,
    ):
        """Args:
        folder: a run, or a directory with runs in it. It may be empty, or not be there yet.
        host: who can see the page: with 127.0.0.1 this machine alone.
        port: where; None: 8080, or any other that is free.
        worlds: in how many worlds to play; None: as many as can be seen well.
        saved_source: whether worlds of the user's are the copies that runs have kept.
        on_play: is called whenever something is ready to play, after compiling.
        """
        self.server = _start(host, port)
        self.address = f"http://{host}:{self.server.get_port()}"
        self.catalogue = Catalogue(folder)
        self.orders: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.number_of_worlds, self.saved_source, self._on_play = worlds, saved_source, on_play
        self.run: Run | None = None
        self.playing: Playing | None = None
        self.is_paused = False
        self.trouble = ""
        self._tried: Any = None
        self._compared: list[Run] = []
        wishes: Any = Queued(self)
        self.panel = Panel(self.server, wishes)
        self.panel.say("Looking for runs ...")
        paint_sky(self.server)

    def serve(self, until: Callable[[], bool] = lambda: False) -> None:
        """Be there for viewers until somebody says stop."""
        glanced = -GLANCE
        frame = time.monotonic()
        while not until():
            self._carry_out_orders()
            now = time.monotonic()
            if now - glanced >= GLANCE:
                glanced = now
                self._look_around()
            if not self.server.get_clients():
                frame = time.monotonic() + REST
            elif self.playing is not None and not self.is_paused:
                self._play(min(now - frame + FRAME, 4 * FRAME))
            frame = max(frame + FRAME, time.monotonic() - FRAME)
            self._wait(frame - time.monotonic())

    def close(self) -> None:
        self._stop_playing()
        self.server.stop()

    # Between two frames.

    def _carry_out_orders(self) -> None:
        while True:
            try:
                order = self.orders.get_nowait()
            except queue.Empty:
                return
            order()

    def _wait(self, seconds: float) -> None:
        """Rest until it is time, or a viewer wants something."""
        if seconds > 0:
            try:
                order = self.orders.get(timeout=seconds)
            except queue.Empty:
                return
            order()

    def _play(self, seconds: float) -> None:
        assert self.playing is not None
        self.playing.speed = float(self.panel.speed.value)
        self.playing.scene.following = bool(self.panel.following.value)
        self._guarded(lambda playing: playing.advance(seconds))

    def _guarded(self, act: Callable[[Playing], None]) -> None:
        """Do something with what is played; what goes wrong is told on the page, and the page goes on."""
        if self.playing is None:
            return
        try:
            act(self.playing)
            self.panel.say_episode(self.playing.describe())
        except Exception as error:  # worlds may be anybody's code
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._stop_playing()
        self.server.scene.remove_by_name(ROOT)  # what a scene has drawn before it failed
        self.trouble = _one_line(error)

    # Runs.

    def _look_around(self) -> None:
        """Look at the directory: which runs there are, and what is new about the one that is watched."""
        changed = self.catalogue.scan()
        self.panel.leaving.sweep()
        self._look_at_standings()
        if changed:
            watched = [] if self.run is None else [self.run.name]
            self.panel.offer(self.panel.run, list(dict.fromkeys([*self.catalogue.runs, *watched])))
        if self.run is None and self.catalogue.runs:
            self.choose_run(next(iter(self.catalogue.runs)))
        if self.run is None:
            self.panel.say(f"There is no run in {self.catalogue.folder} yet.")
            return
        if changed and self.run.name in self.catalogue.runs:
            self.run = self.catalogue.runs[self.run.name]
        self._look_at_run(self.run)
        if self.run.metrics.read() | any([run.metrics.read() for run in self._compared]):
            self.draw_charts()
        self.panel.tell(self.trouble)
        self.panel.say(self._status(self.run))

    def _look_at_standings(self) -> None:
        try:
            agents = read_agents(self.catalogue.folder)
        except OSError as error:
            self.trouble = str(error)
            return
        if agents is not None:
            self.panel.show_standings(agents)

    def _look_at_run(self, run: Run) -> None:
        if not run.exists:
            self.trouble = f"{run.directory.path} is gone." + (
                " Its last policy plays on." if self.playing is not None else ""
            )
            return
        self.panel.show_settings(run.settings())
        try:
            names = checkpoint_names(run.directory)
            self.panel.offer_checkpoints(names)
            if self.playing is None:
                self._start_playing(run, names)
            elif self.playing.stage.is_outdated():
                self._stop_playing()
            else:
                self.playing.stage.take_newer()
                self.trouble = self.playing.note
        except (RunError, OSError, ValueError) as error:
            self.trouble = _one_line(error)

    def _start_playing(self, run: Run, names: list[str]) -> None:
        if not names:
            self.trouble = "There is no checkpoint yet: the first one comes after a while of training."
            return
        tried = (run.name, names, self.panel.which, self.number_of_worlds, run.settings())
        if tried == self._tried or not self.server.get_clients():
            return  # it would fail again; or nobody would see it
        self._tried, self.trouble = tried, ""
        self.panel.tell("")
        self.panel.say(f"**{run.name}**: compiling its world ...")
        self.server.flush()
        try:
            self.playing = Playing(
                self.server,
                self.panel,
                run.directory,
                self.number_of_worlds,
                self.panel.which,
                self.saved_source,
            )
        except Exception as error:  # worlds may be anybody's code
            self._fail(error)
            return
        self.playing.scene.on_click = lambda *click: self.orders.put(lambda: self._clicked(*click))
        self._tried = None
        self.trouble = self.playing.note
        self._on_play()

    def _stop_playing(self) -> None:
        if self.playing is not None:
            self.playing.close()
            self.playing = None
            self.panel.say_episode("")

    def _status(self, run: Run) -> str:
        parts = [f"**{run.name}**: {run.described()}"]
        if self.playing is not None:
            step = self.playing.stage.checkpoint.step
            parts.append(f"at play: weights of step {step:,}")
        return " · ".join(parts)

    # Charts.

    def draw_charts(self) -> None:
        if self.run is None:
            return
        chosen = self.panel.compare.value
        others = [run for run in self.catalogue.runs.values() if run is not self.run]
        self.panel.offer_comparisons([run.name for run in others])
        if chosen == ALL:
            world = self.run.settings().get("env")
            self._compared = [run for run in others if run.settings().get("env") == world]
        else:
            self._compared = [run for run in others if run.name == chosen and chosen != NOTHING]
        for run in self._compared:
            run.metrics.read()
        compared = {run.name: as_columns(run.metrics.rows) for run in self._compared}
        self.panel.charts.show(OVER[self.panel.over.value], as_columns(self.run.metrics.rows), compared)

    # What viewers wish.

    def choose_run(self, name: str) -> None:
        if name not in self.catalogue.runs or (self.run is not None and self.run.name == name):
            return
        self._stop_playing()
        self.run, self._tried, self.trouble = self.catalogue.runs[name], None, ""
        self.panel.offer(self.panel.run, list(self.catalogue.runs), name)
        self.panel.checkpoint.value = self.panel.checkpoint.options[0]
        self.run.metrics.read()
        self.draw_charts()
        self._look_around()

    def choose_checkpoint(self, which: str) -> None:
        self._stop_playing()
        self._look_around()

    def choose_worlds(self, count: int) -> None:
        self.number_of_worlds = count
        self._stop_playing()
        self._look_around()

    def pause(self, paused: bool) -> None:
        self.is_paused = paused

    def one_step(self) -> None:
        self.is_paused = self.panel.paused.value = True
        self._guarded(lambda playing: playing.one_step())

    def begin_anew(self) -> None:
        self._guarded(lambda playing: playing.begin())

    def follow(self, world: int) -> None:
        self._guarded(lambda playing: playing.follow(world))

    def push(self, everybody: bool) -> None:
        angle = np.radians(float(self.panel.direction.value))
        self._push(np.array([np.cos(angle), np.sin(angle)]), None if everybody else [self.panel.world.value])

    def _push(self, direction: np.ndarray, worlds: list[int] | None) -> None:
        velocity = float(self.panel.strength.value) * direction
        self._guarded(lambda playing: playing.push(velocity, worlds))

    def _clicked(self, world: int, ray: np.ndarray) -> None:
        if self.panel.click.value == PUSHES:
            self._push(ray[:2] / max(float(np.hypot(*ray[:2])), 1e-6), [world])
        else:
            self.panel.world.value = world
            self.follow(world)

    def redraw_charts(self) -> None:
        self.draw_charts()


class Queued:
    """Carries out a studio's methods in its own thread, when it is their turn."""

    def __init__(self, studio: Studio):
        self._studio = studio

    def __getattr__(self, name: str) -> Callable[..., None]:
        act = getattr(self._studio, name)
        return lambda *arguments: self._studio.orders.put(lambda: act(*arguments))


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    known = isinstance(error, RunError | ValueError | ExtraMissing)
    return text if known and text else f"{type(error).__name__}: {text}"


def _start(host: str, port: int | None) -> Any:
    """The server, without anything printed."""
    try:
        import viser
    except ModuleNotFoundError as error:
        raise ValueError(f"The page needs {error.name}: pip install slipstream-rl[studio]") from error
    port = choose_port(host, port)
    with contextlib.redirect_stdout(io.StringIO()):
        return viser.ViserServer(host=host, port=port, verbose=False)
