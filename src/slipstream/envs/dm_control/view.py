"""A state of a robot, as the suite's tasks look at it: by the names of its bodies, geoms, sites, joints and sensors."""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import mujoco

from slipstream import physics
from slipstream.physics import spatial as sp
from slipstream.physics.kinematics import Motion, Pose
from slipstream.physics.loading_tendons import on_link


class View:
    """What is computed once is not computed again. Vectors are tuples, rotations three rows."""

    def __init__(self, model: physics.Model, state: Any, action: Sequence[Any], felt: dict[str, Sequence[Any]]):
        """Args:
        action: the controls of the last step.
        felt: what sensors of forces said at its end.
        """
        self.model, self.action, self.felt = model, action, felt
        self.qpos, self.qvel, self.act = state.qpos, state.qvel, state.act
        self.target: Sequence[Any] = state.goal

    @cached_property
    def where(self) -> Pose:
        return physics.pose(self.model, self.qpos)

    @cached_property
    def moving(self) -> Motion:
        return physics.motion(self.model, self.where, self.qvel)

    # Joints.

    def position(self, joint: str) -> Any:
        return self.qpos[self.model.joint(joint).qpos]

    def velocity(self, joint: str) -> Any:
        return self.qvel[self.model.joint(joint).dof]

    # Bodies.

    def place(self, body: str) -> tuple:
        return physics.body_position(self.model, self.where, self.model.body(body))

    def rotation(self, body: str | int) -> tuple:
        number = body if isinstance(body, int) else self.model.body(body)
        return physics.body_rotation(self.model, self.where, number)

    def centre(self, body: str) -> tuple:
        """Of the mass of a body."""
        found = self.model.bodies[self.model.body(body)]
        return sp.plus(self.place(body), sp.rotate(self.rotation(body), found.com))

    def upright(self, body: str) -> Any:
        """The cosine of the angle between a body's z axis and the vertical."""
        return self.rotation(body)[2][2]

    def from_body(self, body: str, place: Sequence[Any]) -> tuple:
        """A place of the world, as seen from a body."""
        return sp.rotate_back(self.rotation(body), sp.minus(place, self.place(body)))

    # Geoms and sites.

    def geom(self, name: str) -> tuple:
        """Where it is."""
        geom = self.model.geoms[self.model.geom(name)]
        return self._on_link(geom.link, geom.pos)

    def geom_rotation(self, name: str) -> tuple:
        geom = self.model.geoms[self.model.geom(name)]
        return sp.matmul(self.where.rotation[geom.link], sp.quaternion_matrix(geom.quat))

    def geom_size(self, name: str) -> tuple:
        return self.model.geoms[self.model.geom(name)].size

    def site(self, name: str) -> tuple:
        """Where it is."""
        number = self._site(name)
        body = self.model.bodies[int(self.model.mujoco.site_bodyid[number])]
        return self._on_link(body.link, on_link(body, self.model.mujoco.site_pos[number]))

    def site_size(self, name: str) -> tuple:
        return tuple(map(float, self.model.mujoco.site_size[self._site(name)]))

    def _site(self, name: str) -> int:
        return mujoco.mj_name2id(self.model.mujoco, mujoco.mjtObj.mjOBJ_SITE, name)

    def _on_link(self, link: int, place: Sequence[Any]) -> tuple:
        relative = sp.rotate(self.where.rotation[link], place, self.where.position[link])
        return sp.plus(self.where.origin[link], relative)

    # Sensors.

    def sensor(self, name: str) -> Sequence[Any]:
        """What a sensor says."""
        if name in self.felt:
            return self.felt[name]
        return physics.read_sensor(self.model, name, self.qpos, self.qvel)
