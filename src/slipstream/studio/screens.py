"""Worlds without a body: pictures that environments draw of themselves, numbers as traces, money as curves."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from slipstream.runs.curves import COLORS
from slipstream.studio.drawings import DrawnScene
from slipstream.studio.panel import Panel
from slipstream.studio.scene import ROOT, Scene, add_floor
from slipstream.studio.stage import LiveGymnasium, LiveWorlds, State

TALL = 4.0
"""How high the picture of an environment is, in metres."""
TRACE = 200
"""Steps that are traced."""
MOST_TRACES = 8
"""Numbers that have a colour of their own."""


class ScreenScene(Scene):
    """What an environment of Gymnasium draws, on a screen."""

    def __init__(self, server: Any, arena: LiveGymnasium):
        super().__init__(server)
        self.arena = arena
        self.camera = ((0.0, -3.6, 0.5 * TALL + 0.2), (0.0, 0.0, 0.5 * TALL + 0.1))
        server.scene.add_frame(ROOT, show_axes=False)
        add_floor(server, -0.1)
        self.picture = arena.picture()
        self.handle = server.scene.add_image(
            f"{ROOT}/screen",
            self.picture,
            TALL * self.picture.shape[1] / self.picture.shape[0],
            TALL,
            jpeg_quality=85,
            # Upright, and towards a viewer who looks along y.
            wxyz=(np.sqrt(0.5), -np.sqrt(0.5), 0.0, 0.0),
            position=(0.0, 0.0, 0.5 * TALL),
            cast_shadow=False,
            receive_shadow=False,
        )
        self._shown: State | None = None

    def show(self, before: State, after: State, share: float, ended: np.ndarray) -> None:
        if after is not self._shown:
            self._shown = after
            self.handle.image = self.arena.picture()


class Traces:
    """Numbers that change from step to step, as lines in the panel.

    Args:
        panel: of the page.
        title: what they are.
        names: what each is called.
        window: steps that are seen; None: all since they were cleared.
    """

    def __init__(self, panel: Panel, title: str, names: list[str], window: int | None):
        self.points: deque[np.ndarray] = deque(maxlen=window)
        self.steps: deque[int] = deque(maxlen=window)
        self.count, self.leaving = len(names), panel.leaving
        panel.extra.visible = True
        with panel.extra:
            self.handle = panel.gui.add_uplot(
                data=self._data(),
                series=(
                    {"label": "step"},
                    *({"label": n, "stroke": COLORS[i % len(COLORS)], "width": 1.5} for i, n in enumerate(names)),
                ),
                title=title,
                scales={"x": {"time": False}},
                axes=({"size": 34, "space": 70}, {"size": 58, "space": 30}),
                height=210,
                padding=(6, 16, 0, 0),
            )

    def _data(self) -> tuple[np.ndarray, ...]:
        if len(self.points) < 2:
            return (np.array([0.0, 1.0]), *(np.zeros((self.count, 2))))
        return (np.array(self.steps, float), *np.stack(self.points, -1).astype(float))

    def add(self, step: int, values: np.ndarray) -> None:
        self.points.append(np.asarray(values, float))
        self.steps.append(step)

    def clear(self) -> None:
        self.points.clear()
        self.steps.clear()

    def draw(self) -> None:
        self.handle.data = self._data()

    def remove(self) -> None:
        self.leaving.add(self.handle)


class TraceScene(Scene):
    """What the first agent of a world observes, for worlds that nobody has drawn."""

    def __init__(self, server: Any, panel: Panel, arena: LiveWorlds):
        super().__init__(server)
        self.arena, self.panel = arena, panel
        features = arena.groups[0].observation.size
        self.shown = min(features, MOST_TRACES)
        title = f"observation, {self.shown} of {features}" if features > self.shown else "observation"
        self.traces = Traces(panel, title, [f"feature {i}" for i in range(self.shown)], TRACE)
        self.count = 0
        server.scene.add_frame(ROOT, show_axes=False)
        add_floor(server, 0.0)
        name = type(arena.env).__name__
        server.scene.add_label(
            f"{ROOT}/note",
            f"{name} has no method draw(state): what it observes is traced in the panel, under World.",
            position=(0.0, 0.0, 1.0),
            anchor="center-center",
        )
        self._shown: State | None = None

    def show(self, before: State, after: State, share: float, ended: np.ndarray) -> None:
        if after is self._shown:
            return
        self._shown, self.count = after, self.count + 1
        self.traces.add(self.count, self.arena.observation(self.focus)[: self.shown])
        self.traces.draw()

    def follow(self, world: int) -> None:
        super().follow(world)
        self.traces.clear()

    def close(self) -> None:
        super().close()
        self.traces.remove()
        self.panel.extra.visible = False


class TradingScene(DrawnScene):
    """A market: what a portfolio holds as bars, what it is worth as a curve, and how much of it is in what."""

    def __init__(self, server: Any, panel: Panel, env: Any, num_worlds: int, state: State):
        super().__init__(server, env, num_worlds, state)
        self.panel = panel
        self.equity = Traces(panel, "what the portfolio is worth, %", ["this one", "mean of all"], None)
        names = ["cash", *env.market.prices.names]
        money = self._money(state)[:, 0]
        self.largest = list(range(min(len(money), MOST_TRACES)))
        self.positions = Traces(panel, "where its money is, %", [names[i] for i in self.largest], None)
        self.step = -1

    def _money(self, state: State) -> np.ndarray:
        """Cash, and what is in each stock, `[1 + stocks, worlds]`."""
        env: Any = self.env
        days = np.clip(state["day"], 0, len(env.market.prices.days) - 1).astype(int)
        return np.concatenate(
            [state["cash"][None] * env.initial_cash, state["shares"] * env.market.prices.close[days].T]
        )

    def show(self, before: State, after: State, share: float, ended: np.ndarray) -> None:
        super().show(before, after, share, ended)
        env: Any = self.env
        step = int(after["step"][self.focus])
        if step == self.step:
            return
        if step < self.step:
            self._clear()
        self.step = step
        money = self._money(after)
        worth = money.sum(axis=0)
        gain = 100.0 * worth / env.initial_cash
        self.equity.add(step, np.array([gain[self.focus], gain.mean()]))
        self.positions.add(step, 100.0 * money[self.largest, self.focus] / worth[self.focus])
        self.equity.draw()
        self.positions.draw()

    def _clear(self) -> None:
        self.equity.clear()
        self.positions.clear()

    def follow(self, world: int) -> None:
        super().follow(world)
        self._clear()
        self.step = -1

    def close(self) -> None:
        super().close()
        self.equity.remove()
        self.positions.remove()
        self.panel.extra.visible = False
