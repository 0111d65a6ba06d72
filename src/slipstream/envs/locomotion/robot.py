"""What all robots share: a model from an MJCF file, a noisy start, and a control step of physics."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import drjit as dr
import numpy as np

from slipstream import physics
from slipstream.arrays import ArrayTypes
from slipstream.envs.env import Env, Float, Group, Int
from slipstream.envs.extras import ExtraMissing
from slipstream.envs.locomotion.randomisation import Randomisation, Variation
from slipstream.envs.locomotion.terrain import Uneven
from slipstream.random import Rng
from slipstream.spaces import Box


@dataclass
class State:
    """A robot in every world."""

    qpos: tuple[Float, ...]
    """MuJoCo's coordinates, nq of them."""
    qvel: tuple[Float, ...]
    """Velocities, nv."""
    qacc: tuple[Float, ...]
    """Accelerations of the last step, nv: where the constraint solver starts."""
    start: Float
    """Where the episode began, along x."""
    step: Int
    drawn: tuple[Float, ...] = ()
    """What this episode's robot differs by (with domain randomisation)."""
    past: tuple[Float, ...] = ()
    """Earlier actions that are still to be carried out, the newest first (with latency)."""
    dropped: tuple[Float, ...] = ()
    """How many self-contacts were left out since the episode began (one number, where there can be too many)."""
    act: tuple[Float, ...] = ()
    """Activations of actuators that have them."""
    paid: tuple[Float, ...] = ()
    """What each term of the reward has earned in the episode."""
    sensed: tuple[Float, ...] = ()
    """What the robot's `sensors` said in the last physics step."""


class Robot(Env):
    """A robot from an MJCF file: subclass it, and write `reset`, `step` and `observe` with what is here.

    Options of the task are parameters of the subclass's `__init__`; its `**robot` are the options below.
    """

    max_steps = 1000
    name: ClassVar[str] = "robot"
    """Of the group of agents (of one)."""
    # Accelerations are the least exact, and only where the next solve starts.
    tolerances = {"observation": 1e-4, "qvel": 1e-4, "qacc": 1e-3}
    camera: ClassVar[tuple[float, float] | None] = None
    """In films: how far from the robot it is in metres, and how it is tilted in degrees (down: negative). None: so that
    the robot is seen well, by its size."""
    sensors: tuple[str, ...] = ()
    """Names of sensors of forces and accelerations whose readings a state keeps, in `sensed`."""
    state_type: type[State] = State
    """With more fields (that have defaults) for a task that needs them."""
    terms: tuple[str, ...] = ()
    """What the reward is made of, by name (see `pay`); what each has earned is in the report of an episode."""
    uneven: Uneven | None = None
    """The ground, where it is not what the file says; states then have a `level` and a `variant`."""
    physics_step: Callable[..., physics.State] = staticmethod(physics.step)
    """What moves the robot: our physics, or MuJoCo's own (see `slipstream.physics.original`)."""

    def __init__(
        self,
        xml_file: str,
        frame_skip: int,
        *,
        integrator: str | None = None,
        timestep: float | None = None,
        self_contacts: int = 6,
        newton_iterations: int = 50,
        leave_out_pairs: bool = False,
        random_mass: float = 0.0,
        random_friction: float = 0.0,
        random_strength: float = 0.0,
        random_latency: int = 0,
        random_push: float = 0.0,
        push_interval: float = 3.0,
    ):
        """Args:
        xml_file: a path, or the name of one of Gymnasium's assets.
        frame_skip: physics steps per control step.
        integrator: `euler`, `rk4` or `implicitfast`; None: what the file says.
        timestep: of a physics step, in seconds; None: what the file says.
        self_contacts: how many contacts a robot can have with itself at once; further ones are left out, and told.
            0: its parts pass through each other.
        newton_iterations: the bound on the iterations of the constraint solver, which ends by itself where it has
            converged.
        leave_out_pairs: let parts pass through each other whose collision is not simulated, where the model would be
            refused otherwise (`slipstream check-model --leave-out-pairs` tells which).
        random_mass: the mass and inertia of each link differ from the file's by up to this share.
        random_friction: all friction coefficients together differ by up to this share.
        random_strength: each motor differs by up to this share.
        random_latency: actions are carried out up to so many control steps late.
        random_push: pushes make the robot so much faster, in m/s, in a random horizontal direction.
        push_interval: seconds between two pushes, in the mean.
        """
        if frame_skip < 1:
            raise ValueError(f"frame_skip must be at least 1, got {frame_skip}.")
        self.random = Randomisation(
            random_mass, random_friction, random_strength, random_latency, random_push, push_interval
        )
        self.model = self.load_model(
            xml_file,
            integrator=integrator,
            timestep=timestep,
            self_contacts=self_contacts,
            leave_out_pairs=leave_out_pairs,
            newton_iterations=newton_iterations,
        )
        self.frame_skip = frame_skip
        self.time_step = self.playback_step = self.model.options.timestep * frame_skip
        ranges = [actuator.ctrl_range for actuator in self.model.actuators]
        action = Box(self.model.nu, *(tuple(bounds) for bounds in zip(*ranges)))
        self.groups = (Group(self.name, observation=Box(self._count_features()), action=action),)

    def load_model(self, xml_file: str, **options: Any) -> physics.Model:
        """Read the file and specialise it; `options` are those of `physics.load`."""
        path = model_file(xml_file)
        # What MuJoCo deprecates in Gymnasium's files is nothing a user could mend; about their own files they are told.
        silent = path.parent == gymnasium_assets()
        with without_mujoco_warnings() if silent else nullcontext():
            return physics.load(self.read_model(path), **options)

    def read_model(self, path: Path) -> Any:
        """What `physics.load` is given: the file, unless a task changes what is in it."""
        return str(path) if self.uneven is None else self.uneven.put_under(path, "floor")

    def tables(self, types: ArrayTypes) -> Any:
        ground = [] if self.uneven is None else self.uneven.tables(self.model, types)
        return [*physics.tables(self.model, types), *ground]

    def _count_features(self) -> int:
        """The size of the observation: that of a robot in its default pose."""
        zeros = (0.0,) * self.model.nv
        return len(self.observe(self.start_state(self.model.qpos0, zeros)))

    @property
    def num_sensed(self) -> int:
        """How many numbers the robot's `sensors` give."""
        return sum(int(self.model.mujoco.sensor(name).dim[0]) for name in self.sensors)

    # For `reset`.

    def start_state(self, qpos: Sequence[Any], qvel: Sequence[Any], rng: Rng | None = None) -> Any:
        """The first state of an episode, from its coordinates and velocities."""
        drawn = () if rng is None else self.random.draw(self.model, rng)
        past = (0.0,) * (self.random.latency * self.model.nu)
        dropped = (0.0,) if self.model.can_drop_contacts else ()
        state = self.state_type(tuple(qpos), tuple(qvel), (0.0,) * self.model.nv, 0.0, 0, drawn, past, dropped)
        zeros = (0.0,) * self.num_sensed
        state = replace(state, act=(0.0,) * self.model.na, paid=(0.0,) * len(self.terms), sensed=zeros)
        return replace(state, start=self.place(state))

    def noisy_positions(self, rng: Rng, scale: float) -> list[Any]:
        """The default pose, with every coordinate up to `scale` off."""
        return [q + rng.uniform(-scale, scale) for q in self.model.qpos0]

    def noisy_velocities(self, rng: Rng, scale: float, *, normal: bool = False) -> list[Any]:
        """Small velocities: uniform, or normally distributed."""
        draw = (lambda: rng.normal(0.0, scale)) if normal else (lambda: rng.uniform(-scale, scale))
        return [draw() for _ in range(self.model.nv)]

    # For `step`.

    def simulate(self, state: Any, action: tuple, rng: Rng) -> Any:
        """The state after one control step of physics."""
        return self.simulate_and_measure(state, action, rng, None)[0]

    def simulate_and_measure(self, state: Any, action: tuple, rng: Rng, measure: Callable | None) -> tuple[Any, Any]:
        """The state after one control step of physics, and a number made of the contacts at its end.

        Args:
            measure: makes it of the wrenches on all bodies (see `physics.contact_wrenches`). None: it is 0.
        """
        dropped = state.dropped[0] if state.dropped else 0.0 * state.qvel[0]
        coordinates = list(state.qpos), list(state.qvel), list(state.qacc)
        before = physics.State(*coordinates, [], dropped, act=list(state.act))
        after = self.physics_step(
            self.model,
            before,
            self.drive(state, action),
            substeps=self.frame_skip,
            pushes=self.random.pushes(self.model, rng, self.time_step),
            parameters=self.parameters(state),
            measure=None if measure is None else lambda wrenches: [measure(wrenches)],
            sensors=self.sensors,
        )
        past = (*action, *state.past)[: len(state.past)]
        new = replace(
            state,
            qpos=tuple(after.qpos),
            qvel=tuple(after.qvel),
            qacc=tuple(after.qacc),
            past=past,
            dropped=(after.dropped,) if state.dropped else (),
            act=tuple(after.act),
            sensed=tuple(after.sensed),
        )
        return new, after.measured[0] if after.measured else 0.0

    def parameters(self, state: Any) -> physics.Parameters:
        """In what the physics differs from world to world."""
        return replace(self.variation(state).parameters, terrain=self.terrain(state))

    def variation(self, state: State) -> Variation:
        """How this episode's robot differs from the model."""
        return Variation.of(self.random, self.model, state.drawn)

    def drive(self, state: State, action: tuple) -> tuple:
        """What the motors are told when a policy chooses `action`: nu scalars."""
        return self.variation(state).drive(action, state.past)

    def terrain(self, state: Any) -> physics.Terrain | None:
        """The height field the robot stands on, if it is not a plane."""
        return None if self.uneven is None else self.uneven.field(self.model, state)

    def start_terrain(self, qpos: Sequence[Any]) -> physics.Terrain | None:
        """The ground where episodes begin."""
        return None if self.uneven is None else self.uneven.start(self.model, qpos)

    def over_ground(self, state: Any, place: Sequence[Any]) -> Any:
        """The height of a place over the ground below it."""
        x, y, z = place
        terrain = self.terrain(state)
        return z if terrain is None else z - physics.surface(self.model, terrain, x, y)[0]

    def place(self, state: State) -> Any:
        """Where the robot is along x: its first coordinate, unless a robot says otherwise."""
        return state.qpos[0]

    def speed(self, before: State, after: State) -> Any:
        """Mean velocity along x during a step, in m/s."""
        return (self.place(after) - self.place(before)) / self.time_step

    def pay(self, before: Any, after: Any, terms: Mapping[str, Any]) -> tuple[Any, Any]:
        """The state after a step, in which its reward is booked, and the reward: the sum of its terms.

        Args:
            terms: what the step earned (costs are negative), by the names in `self.terms` and in their order.
        """
        if tuple(terms) != self.terms:
            raise ValueError(f"The terms of the reward are {', '.join(self.terms)}; got {', '.join(terms)}.")
        paid = tuple(so_far + term for so_far, term in zip(before.paid, terms.values()))
        return replace(after, paid=paid), sum(terms.values())

    # For `report`, and for films.

    def report(self, state: Any) -> Mapping[str, Any]:
        return {f"reward_{name}": paid for name, paid in zip(self.terms, state.paid)}

    def left_out(self, state: State) -> Mapping[str, Any]:
        """Self-contacts beyond `self_contacts`, summed over the physics steps of the episode."""
        return {"contacts": state.dropped[0]} if state.dropped else {}

    def show(self, state: Mapping[str, np.ndarray]) -> None:
        """Make MuJoCo's model look like the (only) world of a state, as `Worlds.get_state` returned it."""
        if self.uneven is not None:
            self.uneven.show(self.model.mujoco, state)

    def episode_speed(self, state: State) -> Any:
        """Mean velocity along x since the episode began, in m/s."""
        steps = dr.maximum(state.step, 1) * 1.0
        return (self.place(state) - state.start) / (steps * self.time_step)


def model_file(xml_file: str) -> Path:
    """An MJCF file, or one of Gymnasium's assets by its name."""
    path = Path(xml_file).expanduser()
    if not path.is_file():
        path = gymnasium_assets() / xml_file
    if not path.is_file():
        known = ", ".join(sorted(p.name for p in gymnasium_assets().glob("*.xml")))
        raise ValueError(f"There is no model file {xml_file!r}, and it is none of Gymnasium's assets: {known}.")
    return path


@contextmanager
def without_mujoco_warnings() -> Iterator[None]:
    """What MuJoCo warns of is not told."""
    engine: Any = importlib.import_module("mujoco")  # its own description leaves these functions out
    before = engine.get_mju_user_warning()
    engine.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        engine.set_mju_user_warning(before)


def gymnasium_assets() -> Path:
    """Where the installed Gymnasium keeps its robots."""
    spec = importlib.util.find_spec("gymnasium")
    if spec is None or spec.origin is None:
        raise ExtraMissing("gymnasium")
    return Path(spec.origin).parent / "envs" / "mujoco" / "assets"


# Terms that several robots share.


def squares(values: Iterable[Any]) -> Any:
    """The sum of squares."""
    total: Any = 0.0
    for value in values:
        total = total + value * value
    return total


def length(v: Sequence[Any]) -> Any:
    """Of a vector."""
    return dr.sqrt(squares(v))


def heading(rotation: Any) -> tuple[Any, Any]:
    """Sine and cosine of the direction that something with this rotation faces in the plane (0 and 1 where it faces up
    or down)."""
    (x, _, _), (y, _, _), _ = rotation
    flat = length((x, y))
    steep = flat < 1e-6
    scale = 1.0 / dr.select(steep, 1.0, flat)
    return dr.select(steep, 0.0, y * scale), dr.select(steep, 1.0, x * scale)


def within(value: Any, bounds: Sequence[float]) -> Any:
    """Whether low < value < high."""
    low, high = bounds
    return (low < value) & (value < high)


def negated(flag: Any) -> Any:
    """The opposite of a flag, of a plain one too."""
    return dr.select(flag, False, True)
