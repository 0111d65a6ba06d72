"""What is on the page right now: a run's policies at play, and the scene that shows them."""

from __future__ import annotations

from typing import Any

import numpy as np

from slipstream.runs.directory import RunDirectory
from slipstream.studio.panel import Panel
from slipstream.studio.scene import Scene
from slipstream.studio.scenes import make_scene
from slipstream.studio.stage import LiveWorlds, Stage, State

MOST_STEPS = 4
"""Steps that are taken for one frame at most: a machine that is too slow shows the world in slow motion."""

AHEAD = 8.0
"""How far away a robot that is steered sees its target, in metres."""


class Playing:
    """Steps worlds in time with the clock, and shows them.

    Attributes:
        stage: who plays.
        scene: what is seen.
        speed: how fast; 1 is the world's own time.
        note: what a viewer should know, in one line.
    """

    def __init__(
        self,
        server: Any,
        panel: Panel,
        run: RunDirectory,
        num_worlds: int | None,
        which: str,
        saved_source: bool = False,
    ):
        self.note = ""
        self.stage = Stage(run, num_worlds, which, self._warn, saved_source)
        arena = self.stage.arena
        self.panel, self.speed = panel, 1.0
        self.before: State = arena.state()
        self.after: State = self.before
        self.ended = np.zeros(arena.num_worlds, bool)
        self.share = 1.0
        self.scene: Scene = make_scene(server, panel, arena)
        self._look_from(server)
        panel.offer_worlds(arena.num_worlds, is_fixed=not isinstance(arena, LiveWorlds))
        panel.world.value = 0
        panel.robot.visible = self.can_push
        panel.steering.visible = "target" in self.after
        panel.steer.value = False
        panel.offer_commands(getattr(arena.env, "command_ranges", None))
        self.show()

    def _warn(self, text: str) -> None:
        self.note = text

    def _look_from(self, server: Any) -> None:
        """Put the cameras of viewers, and of those to come, where the scene is seen well."""
        place, at = self.scene.camera
        server.initial_camera.position, server.initial_camera.look_at = place, at
        for client in server.get_clients().values():
            client.camera.position, client.camera.look_at = place, at

    # Time.

    def advance(self, seconds: float) -> None:
        """Go on by so much time."""
        self.share += self.speed * seconds / self.stage.arena.step_time
        steps = 0
        while self.share > 1.0:
            if steps == MOST_STEPS:
                self.share = 1.0
                break
            self._step()
            self.share -= 1.0
            steps += 1
        self.show()

    def one_step(self) -> None:
        self._step()
        self.share = 1.0
        self.show()

    def _step(self) -> None:
        stage = self.stage
        stage.forget_returns(self.ended)
        heading = self.panel.wanted_heading
        if heading is not None and "target" in self.after and isinstance(stage.arena, LiveWorlds):
            stage.arena.change(target=steered(self.after, self.scene.focus, heading))
        told = self.panel.wanted_command
        if told is not None and "command" in self.after and isinstance(stage.arena, LiveWorlds):
            command = np.array(self.after["command"])
            command[:, self.scene.focus] = told
            stage.arena.change(command=command)
        moment = stage.step()
        self.before, self.after, self.ended = self.after, stage.arena.state(), moment.done

    def begin(self) -> None:
        """Begin new episodes everywhere."""
        self.stage.begin()
        self.before = self.after = self.stage.arena.state()
        self.ended, self.share = np.zeros(self.stage.arena.num_worlds, bool), 1.0
        self.show()

    def show(self) -> None:
        self.scene.show(self.before, self.after, min(self.share, 1.0), self.ended)

    # What viewers do.

    def follow(self, world: int) -> None:
        self.scene.follow(min(world, self.stage.arena.num_worlds - 1))
        self.show()

    @property
    def can_push(self) -> bool:
        return hasattr(self.stage.arena.env, "model")

    def push(self, velocity: np.ndarray, worlds: list[int] | None) -> None:
        """Make robots faster, all at once.

        Args:
            velocity: by how much along x and y, in m/s.
            worlds: which ones; None: all.
        """
        arena = self.stage.arena
        if not self.can_push or not isinstance(arena, LiveWorlds):
            return
        qvel = np.array(arena.state()["qvel"])
        pushed = slice(None) if worlds is None else [w for w in worlds if w < arena.num_worlds]
        for dof, share in push_directions(arena.env, velocity).items():
            np.atleast_2d(qvel)[dof, pushed] += share  # of a single joint there is no first axis
        arena.change(qvel=qvel)
        self.after = arena.state()
        self.show()

    def describe(self) -> str:
        """How it goes in the world that is followed."""
        focus = self.scene.focus
        step = int(self.after["step"][focus])
        speed = self._speed(focus)
        moving = "" if speed is None else f", {speed:.2f} m/s"
        return f"world {focus}: step {step:,} of its episode, return {self.stage.returns[focus]:,.1f}{moving}"

    def _speed(self, world: int) -> float | None:
        """How fast a robot goes; None for what goes nowhere."""
        env = self.stage.arena.env
        along = moving_dofs(env) if self.can_push else {}
        return float(np.linalg.norm(np.atleast_2d(self.after["qvel"])[list(along), world])) if along else None

    def close(self) -> None:
        self.scene.close()
        self.stage.close()


def steered(state: State, world: int, heading: float) -> np.ndarray:
    """Where robots run to, `[2, worlds]`, if one of them is to go in a direction.

    Args:
        state: of all worlds.
        world: of the robot that is steered.
        heading: in degrees from the x axis.
    """
    target = np.array(state["target"])
    ahead = np.array([np.cos(np.radians(heading)), np.sin(np.radians(heading))])
    target[:, world] = state["qpos"][:2, world] + AHEAD * ahead
    return target


def moving_dofs(env: Any) -> dict[int, np.ndarray]:
    """Which velocities of a robot move it over the ground, and in which direction each does, `[2]`."""
    model = env.model.mujoco
    free, slide = 0, 2
    along: dict[int, np.ndarray] = {}
    for joint in _root_joints(env):
        dof, axis = int(model.jnt_dofadr[joint]), model.jnt_axis[joint]
        if model.jnt_type[joint] == free:
            along |= {dof: np.array([1.0, 0.0]), dof + 1: np.array([0.0, 1.0])}
        elif model.jnt_type[joint] == slide and abs(axis[2]) < 0.5:
            along[dof] = np.array(axis[:2])
    return along


def _root_joints(env: Any) -> list[int]:
    root = next(i for i, body in enumerate(env.model.bodies) if body.link > 0)
    model = env.model.mujoco
    return [j for j in range(model.njnt) if model.jnt_bodyid[j] == root]


def push_directions(env: Any, velocity: np.ndarray) -> dict[int, float]:
    """Which velocities of a robot change when it is pushed, and by how much.

    A robot that can move freely is pushed as a whole; one that moves along rails or in a plane, as far as they let it
    (a push from the side goes forward); one that can only turn is turned.
    """
    along = moving_dofs(env)
    pushed = {dof: float(velocity @ axis) for dof, axis in along.items()}
    if np.linalg.norm(list(pushed.values())) > 1e-3:
        return pushed
    strength = float(np.linalg.norm(velocity))
    return {next(iter(along), int(env.model.mujoco.jnt_dofadr[_root_joints(env)[0]])): strength}
