"""Worlds that draw themselves (`Env.draw`), side by side in three dimensions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from slipstream.envs.drawing import Picture
from slipstream.envs.env import Env
from slipstream.envs.rules import picture_of
from slipstream.studio.scene import ROOT, Scene, add_floor, hex_colour
from slipstream.studio.solids import Frame, Solids, add_picture
from slipstream.studio.stage import State
from slipstream.training.play import one_world

TILE, GAP = 4.0, 0.5
"""How large a picture is, and how far it is to the next one."""
MOST_TEXTS = 120
"""Of all pictures together."""
ANCHORS = {"left": "center-left", "middle": "center-center", "right": "center-right"}
LEAN = math.radians(25.0)
"""How far standing pictures lean back, so that light falls on them."""
SCREEN = 1.3
"""How much wider than high the part of a page usually is that shows them."""
CHOSEN = "#2e73b8"
"""Colour of the frame around the world that is followed."""


class DrawnScene(Scene):
    """Pictures of worlds: upright like on a wall, or flat on the ground if there is more than one agent in them, as
    those are seen from above."""

    def __init__(self, server: Any, env: Env, num_worlds: int, state: State):
        super().__init__(server)
        self.env, self.num_worlds = env, num_worlds
        self.lies = sum(group.size for group in env.groups) > 1
        self.handles: dict[str, Any] = {}
        self.topology: dict[str, np.ndarray] = {}
        self.labels: list[Any] = []
        self._shown: tuple[Any, int] = (None, -1)
        server.scene.add_frame(ROOT, show_axes=False)
        self.frames = self._frames(self._picture(state, 0))
        add_floor(server, -0.05)
        server.scene.add_light_ambient(f"{ROOT}/light", intensity=0.9)

    def _picture(self, state: State, world: int) -> Picture:
        return picture_of(self.env, one_world(state, world, self.num_worlds))

    def _frames(self, picture: Picture) -> list[Frame]:
        """Where each world is, the first one in front; and where to look from."""
        left, bottom, right, top = picture.bounds
        size = max(right - left, top - bottom)
        scale = TILE / size
        width, height = scale * (right - left) + GAP, scale * (top - bottom) + GAP
        columns, rows = tile_form(self.num_worlds, width, height)
        middle = np.array([0.5 * (left + right), 0.5 * (bottom + top)])
        x, y, z = np.eye(3)
        lean = 0.5 * math.pi if self.lies else LEAN
        up, front = math.sin(lean) * y + math.cos(lean) * z, math.sin(lean) * z - math.cos(lean) * y
        base = np.zeros(3) if self.lies else 0.5 * height * up
        frames = []
        for world in range(self.num_worlds):
            row, column = divmod(world, columns)
            across, along = (column - 0.5 * (columns - 1)) * width, row * height
            # Standing pictures are stacked upwards; lying ones go back from the viewer.
            place = base + across * x + (along - (0.5 * (rows - 1) * height if self.lies else 0.0)) * up
            frames.append(Frame(place, scale * x, scale * up, scale * front, middle, size))
        self._aim(columns * width, rows * height)
        return frames

    def _aim(self, width: float, height: float) -> None:
        if self.lies:
            distance = 0.75 * max(width, height) + 0.4
            self.camera = ((0.0, -0.45 * distance, 0.92 * distance), (0.0, -0.05 * height, 0.0))
        else:
            distance, middle = 0.62 * max(width, 1.15 * height) + 0.4, 0.5 * height
            back = middle * math.sin(LEAN)
            place = (0.03 * distance, back - 0.97 * distance, 0.9 * middle + 0.2 * distance)
            self.camera = (place, (0.0, back, 0.9 * middle))

    def show(self, before: State, after: State, share: float, ended: np.ndarray) -> None:
        if self._shown[0] is after and self._shown[1] == self.focus:
            return
        self._shown = (after, self.focus)
        solids, texts = Solids(), []
        for world, frame in enumerate(self.frames):
            picture = self._picture(after, world)
            texts += add_picture(solids, picture, frame)
            if world == self.focus and self.num_worlds > 1:
                self._add_mark(solids, picture, frame)
        with self.server.atomic():
            self._show_solids(solids)
            self._show_texts(texts)

    def _add_mark(self, solids: Solids, picture: Picture, frame: Frame) -> None:
        """A frame around the picture of the world that is followed."""
        left, bottom, right, top = picture.bounds
        edge = 0.012 * frame.size
        for x0, y0, x1, y1 in (
            (left - edge, bottom - edge, right + edge, bottom),
            (left - edge, top, right + edge, top + edge),
            (left - edge, bottom, left, top),
            (right, bottom, right + edge, top),
        ):
            solids.add(np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)]), edge, CHOSEN, frame)

    def _show_solids(self, solids: Solids) -> None:
        meshes = solids.meshes()
        for colour, handle in self.handles.items():
            handle.visible = colour in meshes
        for colour, (vertices, faces) in meshes.items():
            if colour not in self.handles:
                self.handles[colour] = self.server.scene.add_mesh_simple(
                    f"{ROOT}/solid{colour.removeprefix('#')}",
                    vertices,
                    faces,
                    color=hex_colour(colour),
                    flat_shading=True,
                    side="double",
                )
            else:
                self.handles[colour].vertices = vertices
                if not np.array_equal(self.topology[colour], faces):
                    self.handles[colour].faces = faces
            self.topology[colour] = faces

    def _show_texts(self, texts: list[Any]) -> None:
        chosen = texts[:MOST_TEXTS]
        while len(self.labels) > len(chosen):
            self.labels.pop().remove()
        for number, (text, place) in enumerate(chosen):
            if number == len(self.labels):
                self.labels.append(
                    self.server.scene.add_label(
                        f"{ROOT}/text{number}",
                        text.text,
                        position=place,
                        font_size_mode="scene",
                        font_scene_height=text.size * float(np.linalg.norm(self.frames[0].right)),
                        anchor=ANCHORS[text.align],
                    )
                )
            else:
                label = self.labels[number]
                if label.text != text.text:
                    label.text = text.text
                label.position = place


def tile_form(count: int, width: float, height: float) -> tuple[int, int]:
    """Columns and rows in which so many pictures are largest on a page."""
    forms = [(columns, math.ceil(count / columns)) for columns in range(1, count + 1)]
    return min(forms, key=lambda form: (max(form[0] * width / SCREEN, form[1] * height), form[0]))
