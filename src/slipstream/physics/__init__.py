"""MJCF robots in, batched rigid-body kernels out. See docs/physics.md.

model = physics.load("humanoid.xml", touch=("left_foot", "right_foot"))
state = physics.step(model, state, ctrl, substeps=5)          # inside a traced function
batch = physics.Batch(model, 4096); batch.step(batch.controls(ctrl))     # on its own
"""

from slipstream.physics.actuators import actuator_forces
from slipstream.physics.batch import Batch
from slipstream.physics.collision import clearance, geom_distance, touches_ground
from slipstream.physics.kinematics import (
    Motion,
    Pose,
    body_position,
    body_quaternion,
    body_rotation,
    body_velocity,
    centre_of_mass,
    motion,
    pose,
)
from slipstream.physics.loading import load
from slipstream.physics.measure import constraint_forces, contact_wrenches
from slipstream.physics.model import Keyframe, Model
from slipstream.physics.refusal import ModelError
from slipstream.physics.sensors import read_sensor
from slipstream.physics.solids import tables
from slipstream.physics.step import Measure, Parameters, State, is_bad, make_state, step
from slipstream.physics.terrain import Terrain, make_terrain, surface

__all__ = [
    "Batch",
    "Keyframe",
    "Measure",
    "Model",
    "ModelError",
    "Motion",
    "Parameters",
    "Pose",
    "State",
    "Terrain",
    "actuator_forces",
    "body_position",
    "body_quaternion",
    "body_rotation",
    "body_velocity",
    "centre_of_mass",
    "clearance",
    "constraint_forces",
    "contact_wrenches",
    "geom_distance",
    "is_bad",
    "load",
    "make_state",
    "make_terrain",
    "motion",
    "pose",
    "read_sensor",
    "step",
    "surface",
    "tables",
    "touches_ground",
]
