"""A crowd of robots in three dimensions, drawn from the geoms of their MuJoCo model."""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.studio.meshes import FIELD, PLANE, Part, field_mesh, robot_parts
from slipstream.studio.scene import FLOOR, ROOT, SECTION, Scene, add_floor, square_places
from slipstream.studio.stage import State
from slipstream.training.robot_film import camera_of, robot_size

GROUND = (150, 160, 138)
FLAG = (209, 73, 91)
FADED = 0.15
"""How far the colours of a crowd are on the way to those of the floor; the robot that is followed has its own."""
GAMMA = 2.2
"""From the numbers of a screen's colours to amounts of light."""
HIDDEN = np.array([0.0, 0.0, -100.0])
FEW = 16
"""Up to so many robots have their targets shown; of more, only the one that is followed."""


@dataclass(frozen=True)
class Poses:
    """Where all bodies are.

    Attributes:
        position: `[worlds, bodies, 3]`.
        turn: quaternions, `[worlds, bodies, 4]`.
    """

    position: np.ndarray
    turn: np.ndarray


class RobotScene(Scene):
    """Robots side by side on a floor without end. Those who leave the crowd on one side come back on the other, so
    that whoever is followed always has company. On uneven ground only those are shown who stand on the same field."""

    def __init__(self, server: Any, env: Any, num_worlds: int):
        import mujoco

        super().__init__(server)
        self.env, self.num_worlds = env, num_worlds
        self.model = copy.copy(env.model.mujoco)
        self.data = mujoco.MjData(self.model)
        self.parts = robot_parts(self.model)
        self.root = next(i for i, body in enumerate(env.model.bodies) if body.link > 0)
        self.has_field = bool((self.model.geom_type == FIELD).any())
        self.stays = any(part.body == 0 for part in self.parts)
        """Whether there is something that does not move, such as a rail: then robots stay where it is."""
        self.size = size = robot_size(self.model, self.stays)
        apart = size * np.array([1.7, 1.3])
        self.places = np.zeros((num_worlds, 2)) if self.has_field else square_places(num_worlds, *apart)
        self.field = np.ptp(self.places, axis=0) + apart
        """How far the crowd reaches along x and y."""
        self.corner = np.array([0.5 * self.field[0], 0.5 * apart[1]])
        """How far it reaches to the left of the robot that is followed, and towards the viewer: nobody is in front."""
        self.centre = np.zeros(3)
        self._known: list[tuple[State, Poses]] = []
        self._ground: Any = None
        self._ground_number = -1
        distance, tilt = camera_of(env)
        distance *= 1.45 if num_worlds > 1 else 1.0
        height = max(math.sin(math.radians(-tilt)), 0.4)
        flat = math.sqrt(max(1.0 - height**2, 0.0))
        look = np.array([0.0, 0.0, 0.35 * size if self._has_floor() else 0.0])
        place = look + distance * np.array([0.42 * flat, -0.91 * flat, height])
        self.camera = (tuple(place), tuple(look))
        self._build()

    # Things.

    def _build(self) -> None:
        scene = self.server.scene
        scene.add_frame(ROOT, show_axes=False)
        self.floor = None
        if not self.has_field:
            self.floor_height = _floor_height(self.model)
            self.floor = add_floor(self.server, self.floor_height)
        count, still = self.num_worlds, np.tile(np.array([1.0, 0, 0, 0], np.float32), (self.num_worlds, 1))
        self.handles = [
            scene.add_batched_meshes_simple(
                f"{ROOT}/part{number}",
                part.vertices,
                part.faces,
                still,
                np.tile(HIDDEN.astype(np.float32), (count, 1)),
                batched_colors=self._colours(part),
                opacity=None if part.opacity >= 1.0 else part.opacity,
                lod="off",
            )
            for number, part in enumerate(self.parts)
        ]
        for handle in self.handles:
            handle.on_click(lambda event: self.clicked(event))
        self.flags: Any = None

    def clicked(self, event: Any) -> None:
        """Somebody has clicked on a robot."""
        if self.on_click is not None and event.instance_index is not None:
            self.on_click(int(event.instance_index), np.array(event.ray_direction or (1.0, 0.0, 0.0)))

    def _has_floor(self) -> bool:
        return bool(np.isin(self.model.geom_type, (PLANE, FIELD)).any())

    def _colours(self, part: Part) -> np.ndarray:
        colour, floor = np.array(part.colour, float), np.array(FLOOR, float)
        colours = np.tile(colour + FADED * (floor - colour), (self.num_worlds, 1))
        colours[self.focus] = colour
        return _as_light(colours)

    def follow(self, world: int) -> None:
        super().follow(world)
        for part, handle in zip(self.parts, self.handles):
            handle.batched_colors = self._colours(part)

    # Moving.

    def show(self, before: State, after: State, share: float, ended: np.ndarray) -> None:
        now = _between(self._poses(before), self._poses(after), share, ended)
        root = now.position[:, self.root, :]
        if self.following:
            self.centre = np.array([*root[self.focus, :2], 0.0])
            if self.has_field:  # the ground goes up and down, and the camera with it
                self.centre[2] = root[self.focus, 2]
        shift = self._shift(root, after)
        with self.server.atomic():
            for part, handle in zip(self.parts, self.handles):
                handle.batched_positions = (now.position[:, part.body] + shift).astype(np.float32)
                handle.batched_wxyzs = now.turn[:, part.body].astype(np.float32)
            self._show_ground(after)
            self._show_flags(after, shift)

    def _poses(self, state: State) -> Poses:
        """Of a state; those of the last two are remembered."""
        import mujoco

        for known, poses in self._known:
            if known is state:
                return poses
        position = np.empty((self.num_worlds, self.model.nbody, 3))
        turn = np.empty((self.num_worlds, self.model.nbody, 4))
        for world, pose in enumerate(np.atleast_2d(state["qpos"]).T.astype(np.float64)):
            self.data.qpos[:] = pose
            mujoco.mj_kinematics(self.model, self.data)
            position[world], turn[world] = self.data.xpos, self.data.xquat
        self._known = [*self._known[-1:], (state, Poses(position, turn))]
        return self._known[-1][1]

    def _shift(self, root: np.ndarray, state: State) -> np.ndarray:
        """What is added to where a world's things are, to show it in its place, `[worlds, 3]`."""
        if self.has_field:
            number = self._field_numbers(state)
            # All begin in the same place: nobody stands in the one that is followed.
            apart = np.hypot(*(root - root[self.focus])[:, :2].T) > 0.6 * self.size
            apart[self.focus] = True
            seen = apart & (number == number[self.focus])
            return np.where(seen[:, None], -self.centre, HIDDEN)
        shift = np.zeros((self.num_worlds, 3))
        start = self.places - self.places[self.focus]
        shift[:, :2] = start - self.centre[:2]
        if not self.stays and self.num_worlds > 1:
            seen = root[:, :2] + shift[:, :2]
            shift[:, :2] += (seen + self.corner) % self.field - self.corner - seen
        return shift

    def _field_numbers(self, state: State) -> np.ndarray:
        """Which height field each world stands on."""
        if "level" not in state:
            return np.zeros(self.num_worlds, int)
        return state["level"] * self.env.uneven.ground.variants + state["variant"]

    def _show_ground(self, state: State) -> None:
        if self.floor is not None:
            self.floor.position = (*(-self.centre[:2] % -SECTION), self.floor_height)
            return
        number = int(self._field_numbers(state)[self.focus])
        if number != self._ground_number:
            self._ground_number = number
            if self._ground is not None:
                self._ground.remove()
            vertices, faces = self._field(number)
            self._ground = self.server.scene.add_mesh_simple(
                f"{ROOT}/ground", vertices, faces, color=GROUND, flat_shading=True, cast_shadow=False
            )
        self._ground.position = tuple(-self.centre)

    def _field(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        geom = int(np.flatnonzero(self.model.geom_type == FIELD)[0])
        field = int(self.model.geom_dataid[geom])
        half_x, half_y, top, _ = self.model.hfield_size[field]
        if self.env.uneven is not None:
            vertices, faces = field_mesh(self.env.uneven.heights[number], half_x, half_y)
            return vertices, faces
        rows, columns = int(self.model.hfield_nrow[field]), int(self.model.hfield_ncol[field])
        start = int(self.model.hfield_adr[field])
        heights = top * self.model.hfield_data[start : start + rows * columns].reshape(rows, columns)
        vertices, faces = field_mesh(heights, half_x, half_y)
        return vertices + self.model.geom_pos[geom].astype(np.float32), faces

    def _show_flags(self, state: State, shift: np.ndarray) -> None:
        if "target" not in state:
            return
        worlds = np.arange(self.num_worlds) if self.num_worlds <= FEW else np.array([self.focus])
        places = np.zeros((len(worlds), 3))
        places[:, :2] = state["target"].T[worlds]
        places += shift[worlds]
        far = np.abs(places[:, :2]).max(axis=1) > 200.0
        places[far] = HIDDEN
        still = np.tile(np.array([1.0, 0, 0, 0], np.float32), (len(worlds), 1))
        if self.flags is None:
            from trimesh import creation

            pole = creation.cylinder(0.06, 6.0, sections=12)
            self.flags = self.server.scene.add_batched_meshes_simple(
                f"{ROOT}/flags",
                pole.vertices,
                pole.faces,
                still,
                places,
                batched_colors=_as_light(np.array(FLAG, float)),
                lod="off",
            )
        self.flags.batched_positions = places.astype(np.float32)


def _between(before: Poses, after: Poses, share: float, ended: np.ndarray) -> Poses:
    """Poses on the way from some to others, but where an episode has ended in between."""
    if share >= 1.0:
        return after
    share_of = np.where(ended, 0.0, share)[:, None, None]
    position = before.position + share_of * (after.position - before.position)
    nearer = np.where((before.turn * after.turn).sum(axis=-1, keepdims=True) < 0.0, -after.turn, after.turn)
    turn = before.turn + share_of * (nearer - before.turn)
    return Poses(position, turn / np.linalg.norm(turn, axis=-1, keepdims=True))


def _as_light(colours: np.ndarray) -> np.ndarray:
    """Colours as viser takes them for many meshes at once: as amounts of light, not as screens have them."""
    return (255.0 * (colours / 255.0) ** GAMMA).round().astype(np.uint8)


def _floor_height(model: Any) -> float:
    """Where the floor is: at the height of the highest level plane, or well below a robot that has none."""
    planes = [g for g in range(model.ngeom) if model.geom_type[g] == PLANE and model.geom_bodyid[g] == 0]
    level = [float(model.geom_pos[g, 2]) for g in planes if abs(float(model.geom_quat[g, 0])) > 0.999]
    return max(level, default=-1.2 * robot_size(model))
