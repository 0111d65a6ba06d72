"""What viewers can read and do: the panel beside the scene. It says what is wanted; the studio does it."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from slipstream.runs.curves import COLORS
from slipstream.studio.charts import ChartBoard, Leaving
from slipstream.studio.standings import Agent, best_so_far, standings_text

NEWEST, BEST = "newest, as it learns", "best so far"
NOTHING, ALL = "no other run", "all runs of this world"
FOLLOWS, PUSHES = "follows it", "pushes it"
OVER = {"steps": "step", "seconds": "seconds"}
BRAND = (0, 96, 160)
WIDTH = 380
"""Of the panel, in pixels."""


class Wishes(Protocol):
    """What the panel asks for. Viewers click in threads of their own: whoever hears this must not act in them."""

    def choose_run(self, name: str) -> None: ...
    def choose_checkpoint(self, which: str) -> None: ...
    def choose_worlds(self, count: int) -> None: ...
    def pause(self, paused: bool) -> None: ...
    def one_step(self) -> None: ...
    def begin_anew(self) -> None: ...
    def follow(self, world: int) -> None: ...
    def push(self, everybody: bool) -> None: ...
    def redraw_charts(self) -> None: ...


class Panel:
    """The panel.

    Attributes:
        charts: the curves.
        leaving: charts that are no longer wanted.
    """

    def __init__(self, server: Any, wishes: Wishes):
        gui = server.gui
        self.server, self.gui, self.wishes = server, gui, wishes
        gui.configure_theme(show_logo=False, show_share_button=False, control_width="large", brand_color=BRAND)
        gui.set_panel_label("Slipstream")
        gui.main_panel.dock_right()
        gui.main_panel.set_width(WIDTH)
        self.status = gui.add_markdown("")
        self.trouble = gui.add_markdown("", visible=False)
        self.run = gui.add_dropdown("run", ("-",))
        tabs = gui.add_tab_group()
        self.tabs = tabs
        play = tabs.add_tab("Play")
        curves = tabs.add_tab("Curves")
        settings = tabs.add_tab("Settings")
        with play:
            self._build_play()
        with curves:
            self.over = gui.add_dropdown("over", tuple(OVER))
            self.compare = gui.add_dropdown("compare with", (NOTHING,))
        self.leaving = Leaving()
        self.charts = ChartBoard(gui, curves, self.leaving)
        with settings:
            self.settings = gui.add_markdown("")
        self._leaderboard: Any = None
        self._scores: Any = None
        self._known: dict[Any, Any] = {}
        self._listen()

    def _build_play(self) -> None:
        gui = self.gui
        self.checkpoint = gui.add_dropdown("weights", (NEWEST, BEST))
        self.paused = gui.add_checkbox("pause", False)
        self.speed = gui.add_slider("speed", 0.05, 2.0, 0.05, 1.0, hint="1 is the world's own time")
        self.buttons = gui.add_button_group("do", ("one step", "begin anew"))
        self.worlds = gui.add_dropdown("worlds", ("1", "4", "9", "16", "64", "256"), initial_value="64")
        self.world = gui.add_slider("follow world", 0, 1, 1, 0)
        self.following = gui.add_checkbox("camera follows it", True)
        self.robot = gui.add_folder("Push")
        with self.robot:
            self.strength = gui.add_slider("strength, m/s", 0.5, 10.0, 0.5, 3.0)
            self.direction = gui.add_slider("direction, degrees", -180, 180, 15, 90)
            self.push = gui.add_button_group("push", ("this robot", "all robots"))
            self.click = gui.add_dropdown("a click on a robot", (FOLLOWS, PUSHES))
        self.robot.visible = False
        self.steering = gui.add_folder("Steer")
        with self.steering:
            self.steer = gui.add_checkbox("choose where it runs", False)
            self.heading = gui.add_slider("heading, degrees", -180, 180, 5, 0)
        self.steering.visible = False
        self._build_command()
        self.episode = gui.add_markdown("")
        self.extra = gui.add_folder("World")
        self.extra.visible = False

    def _build_command(self) -> None:
        """For robots that walk as they are told: sliders, and keys beside each other on a keyboard."""
        gui = self.gui
        self.commanding = gui.add_folder("Command")
        with self.commanding:
            hint = "keys: I and K ahead and back, J and L to the sides, U and O turn, M stands still"
            self.command = gui.add_checkbox("choose how it walks", False, hint=hint)
            self.command_speeds = (
                gui.add_slider("ahead, m/s", -1.0, 1.0, 0.05, 0.0),
                gui.add_slider("left, m/s", -1.0, 1.0, 0.05, 0.0),
                gui.add_slider("turn, rad/s", -1.0, 1.0, 0.05, 0.0),
            )
        self.commanding.visible = False
        self._keys: list[Any] = []

    def offer_commands(self, ranges: Sequence[tuple[float, float]] | None) -> None:
        """Let viewers tell a robot how to walk, within the ranges it has learned; None: there is nothing to tell."""
        self.command.value, self.commanding.visible = False, ranges is not None
        for key in self._keys:
            key.remove()
        self._keys = []
        if ranges is None:
            return
        for slider, (low, high) in zip(self.command_speeds, ranges):
            slider.min, slider.max, slider.value = low, high, 0.0
        ahead, left, turn = self.command_speeds
        steps = (
            ("I", "ahead", ahead, 1),
            ("K", "back", ahead, -1),
            ("J", "to the left", left, 1),
            ("L", "to the right", left, -1),
            ("U", "turn left", turn, 1),
            ("O", "turn right", turn, -1),
        )
        for key, name, slider, sign in steps:
            self._on_key(key, name, lambda slider=slider, sign=sign: self._nudge(slider, sign))
        self._on_key("M", "stand still", self._stand)

    def _on_key(self, key: str, name: str, do: Callable[[], None]) -> None:
        handle = self.gui.add_command(name, hotkey=key)
        handle.on_trigger(lambda event: do())
        self._keys.append(handle)

    def _nudge(self, slider: Any, sign: int) -> None:
        self.command.value = True
        slider.value = float(np.clip(slider.value + sign * 0.25 * slider.max, slider.min, slider.max))

    def _stand(self) -> None:
        self.command.value = True
        for slider in self.command_speeds:
            slider.value = 0.0

    def _listen(self) -> None:
        wishes = self.wishes
        self.run.on_update(lambda event: self._said(event, lambda: wishes.choose_run(self.run.value)))
        self.checkpoint.on_update(lambda event: self._said(event, lambda: wishes.choose_checkpoint(self.which)))
        self.worlds.on_update(lambda event: self._said(event, lambda: wishes.choose_worlds(int(self.worlds.value))))
        self.paused.on_update(lambda event: self._said(event, lambda: wishes.pause(self.paused.value)))
        self.world.on_update(lambda event: self._said(event, lambda: wishes.follow(int(self.world.value))))
        steps = {"one step": wishes.one_step, "begin anew": wishes.begin_anew}
        self.buttons.on_click(lambda event: steps[self.buttons.value]())
        self.push.on_click(lambda event: wishes.push(self.push.value == "all robots"))
        for choice in (self.over, self.compare):
            choice.on_update(lambda event: wishes.redraw_charts())

    def _said(self, event: Any, wish: Callable[[], None]) -> None:
        """Do as a viewer says; what the page itself has set is no wish."""
        if event.client is not None:
            wish()

    @property
    def wanted_heading(self) -> float | None:
        """Where viewers want the robot to run, in degrees from the x axis; None: where its world says."""
        return float(self.heading.value) if self.steer.value else None

    @property
    def wanted_command(self) -> tuple[float, ...] | None:
        """How viewers want the robot to walk; None: as its world says."""
        return tuple(float(slider.value) for slider in self.command_speeds) if self.command.value else None

    # What it says.

    @property
    def which(self) -> str:
        """Whose weights are wanted, as `load_checkpoint` takes it."""
        chosen = self.checkpoint.value
        return {NEWEST: "latest", BEST: "best"}.get(chosen, str(chosen))

    def tell(self, trouble: str) -> None:
        """Say in one line what is wrong; nothing, if it is empty."""
        text = f"**{html.escape(' '.join(trouble.split()))}**" if trouble else ""
        if self._is_new("trouble", text):
            self.trouble.content, self.trouble.visible = text, bool(text)

    def say(self, text: str) -> None:
        """Say how things are."""
        if self._is_new("status", text):
            self.status.content = text

    def say_episode(self, text: str) -> None:
        if self._is_new("episode", text):
            self.episode.content = text

    def _is_new(self, what: str, value: Any) -> bool:
        """Whether something differs from before: only what is new is sent to the viewers."""
        old = self._known.get(what)
        self._known[what] = value
        return old != value

    # Choices.

    def offer(self, choice: Any, options: Sequence[str], value: str | None = None) -> None:
        """Let viewers choose between other options; `value`, or what was chosen before, stays chosen."""
        wanted = value if value is not None else choice.value
        options = tuple(options) or ("-",)
        if tuple(choice.options) != options:
            choice.options = options
        if wanted in options and choice.value != wanted:
            choice.value = wanted

    def offer_checkpoints(self, names: Sequence[str]) -> None:
        self.offer(self.checkpoint, (NEWEST, BEST, *reversed(names)))

    def offer_comparisons(self, names: Sequence[str]) -> None:
        self.offer(self.compare, (NOTHING, ALL, *names) if names else (NOTHING,))

    def offer_worlds(self, count: int, is_fixed: bool) -> None:
        """Show how many worlds there are, and which can be followed."""
        numbers = sorted({1, 4, 9, 16, 64, 256, count})
        self.offer(self.worlds, [str(number) for number in numbers], str(count))
        self.worlds.disabled = is_fixed
        self.world.max = max(count - 1, 1)
        self.world.visible = self.following.visible = count > 1 or not is_fixed

    def show_standings(self, agents: Sequence[Agent]) -> None:
        """Show the leaderboard of a tournament, on a tab of its own."""
        if not self._is_new("standings", tuple(agents)):
            return
        if self._leaderboard is None:
            self._leaderboard = self.tabs.add_tab("Leaderboard")
            with self._leaderboard:
                self.standings = self.gui.add_markdown("")
        self.standings.content = standings_text(agents)
        if len(agents) > 1:
            self._show_scores(tuple(np.array(values) for values in best_so_far(agents)))

    def _show_scores(self, data: tuple[np.ndarray, ...]) -> None:
        """Of the agents in the order they were submitted."""
        if self._scores is None:
            lines = ({"label": "score", "stroke": COLORS[5]}, {"label": "best", "stroke": COLORS[0], "width": 2})
            with self._leaderboard:
                self._scores = self.gui.add_uplot(
                    data,
                    ({"label": "agent"}, *lines),
                    title="scores as they were submitted",
                    scales={"x": {"time": False}},
                    height=200,
                )
        self._scores.data = data

    def show_settings(self, settings: Mapping[str, Any]) -> None:
        text = settings_text(settings)
        if self._is_new("settings", text):
            self.settings.content = text


def settings_text(settings: Mapping[str, Any]) -> str:
    """A run's configuration as a table."""
    rows = [f"| {name} | {_cell(value)} |" for name, value in _flat(settings).items()]
    return "\n".join(["| setting | value |", "|---|---|", *rows]) if rows else "*Unknown.*"


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        nested = isinstance(value, Mapping) and value
        # As `--set` takes it: `policies` and `settings` go without saying.
        inner = prefix if name in ("policies", "settings", "driver") else f"{prefix}{name}."
        flat |= _flat(value, inner) if nested else {prefix + name: value}
    return flat


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return html.escape(text).replace("|", "\\|").replace("_", "\\_")
