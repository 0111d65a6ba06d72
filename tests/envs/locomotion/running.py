"""MuJoCo's own account of a robot that runs to a target, as the judge of ours."""

from __future__ import annotations

import mujoco
import numpy as np

ALIVE = {"humanoid-run": 2.0, "ant-run": 0.5}
ENERGY = {"humanoid-run": 3.0, "ant-run": 2.0}
EFFORT = {"humanoid-run": 0.2, "ant-run": 0.1}
START_HEIGHT = {"humanoid-run": 1.3, "ant-run": 0.55}
FEET = {
    "humanoid-run": ("right_foot", "left_foot"),
    "ant-run": ("left_ankle_geom", "right_ankle_geom", "third_ankle_geom", "fourth_ankle_geom"),
}


class Reference:
    """What MuJoCo says about one state."""

    def __init__(self, model: mujoco.MjModel, qpos: np.ndarray, qvel: np.ndarray):
        self.model, self.data = model, mujoco.MjData(model)
        self.data.qpos[:], self.data.qvel[:] = qpos, qvel
        mujoco.mj_forward(model, self.data)
        self.torso = model.body("torso").id
        self.rotation = self.data.xmat[self.torso].reshape(3, 3)
        self.yaw = np.arctan2(self.rotation[1, 0], self.rotation[0, 0])
        ranges = model.jnt_range[1:]
        self.joints = 2 * (qpos[7:] - ranges.mean(1)) / np.diff(ranges)[:, 0]

    def distance(self, target):
        return np.linalg.norm(np.subtract(target, self.data.xpos[self.torso][:2]))

    def touches(self, geom: str, other: str) -> bool:
        pair = {self.model.geom(geom).id, self.model.geom(other).id}
        return any({c.geom1, c.geom2} == pair for c in self.data.contact)

    def observation(self, name: str, target, last: np.ndarray, others=()) -> np.ndarray:
        turn = np.array([[np.cos(self.yaw), np.sin(self.yaw), 0], [-np.sin(self.yaw), np.cos(self.yaw), 0], [0, 0, 1]])
        angle = np.arctan2(target[1] - self.data.qpos[1], target[0] - self.data.qpos[0]) - self.yaw
        velocity = np.zeros(6)
        mujoco.mj_objectVelocity(self.model, self.data, mujoco.mjtObj.mjOBJ_BODY, self.torso, velocity, 0)
        features = [
            [self.data.xpos[self.torso][2] - START_HEIGHT[name], np.sin(angle), np.cos(angle)],
            0.25 * turn @ self.data.qvel[:3],
            0.25 * turn @ velocity[:3],
            [np.arctan2(self.rotation[2, 1], self.rotation[2, 2]), np.arcsin(-self.rotation[2, 0])],
            self.joints,
            0.1 * self.data.qvel[6:],
            [self.touches(part, "floor") for part in (*FEET[name], *others)],
            last,
        ]
        return np.clip(np.concatenate(features), -5, 5)

    def rewards(self, name: str, before: Reference, target, action: np.ndarray) -> dict[str, float]:
        """The published terms."""
        joint_of = self.model.actuator_trnid[:, 0]
        strength = self.model.actuator_gear[:, 0] / self.model.actuator_gear[:, 0].mean()
        speeds = self.data.qvel[self.model.jnt_dofadr[joint_of]]
        direction = np.subtract(target, self.data.qpos[:2]) / self.distance(target)
        heading = direction @ self.rotation[:2, 0]
        feet = name != "ant-run" and self.touches(*FEET[name])
        return {
            "progress": 60.0 * (before.distance(target) - self.distance(target)),
            "alive": ALIVE[name],
            "energy": -ENERGY[name] * np.mean(strength * np.abs(action * 0.1 * speeds)),
            "effort": -EFFORT[name] * np.mean(action**2),
            "limits": -0.2 * np.sum(np.abs(self.joints) > 0.99),
            "collision": -1.0 * feet,
            "heading": 0.5 * min(1.0, heading / 0.8),
            "upright": 0.05 * (self.rotation[2, 2] > 0.93),
        }
