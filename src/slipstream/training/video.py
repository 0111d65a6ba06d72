"""Films of robots: an episode of ours, drawn by MuJoCo's renderer."""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.progress import track

from slipstream.envs.worlds import Worlds
from slipstream.training.evaluate import DEFAULT_LIMIT
from slipstream.training.policies import Policies, States

INSTALL_GL = "apt-get install libegl1 libgl1-mesa-dri"
FRAMES_PER_SECOND = 30


class VideoError(ValueError):
    """A film cannot be made; the message says what is missing."""


def choose_renderer() -> None:
    """Render without a screen where there is none. MuJoCo decides when it is first imported."""
    if sys.platform == "linux" and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")


@dataclass(frozen=True)
class Episode:
    """What there is to see of an episode, at its start and after every step."""

    qpos: np.ndarray
    """`[steps + 1, nq]`"""
    target: np.ndarray | None
    """Where the robot should go, `[steps + 1, 2]`; None in tasks without a target."""


def record_episode(policies: Policies, states: States, worlds: Worlds, max_steps: int | None = None) -> Episode:
    """An episode of a robot without exploration.

    Args:
        policies: who acts.
        states: with which weights.
        worlds: a single world of a robot.
        max_steps: stop after so many steps.
    """
    if "qpos" not in worlds.state_fields or not hasattr(worlds.env, "model"):
        raise VideoError(f"{type(worlds.env).__name__} is not a robot: there is nothing that MuJoCo could draw.")
    worlds.reset()
    robot: Any = worlds.env
    robot.show(worlds.get_state())
    store = worlds.new_store(1)
    worlds.observe_into(store, 0)
    views = store.views
    seen = [worlds.get_state()]
    limit = worlds.env.max_steps or DEFAULT_LIMIT
    for _ in range(limit if max_steps is None else min(limit, max_steps)):
        worlds.step_into(store, 0, jax.block_until_ready(policies.act_best(states, views)))
        if store.views["done"][0, 0]:
            break
        seen.append(worlds.get_state())
    qpos, target = ([s[name][:, 0] for s in seen if name in s] for name in ("qpos", "target"))
    return Episode(np.stack(qpos), np.stack(target) if target else None)


def render(env: Any, episode: Episode, width: int, height: int) -> list[np.ndarray]:
    """Pictures of a robot, followed by the camera, at `FRAMES_PER_SECOND`.

    Args:
        env: a `Robot`.
        episode: what to draw.
        width: of the pictures, in pixels.
        height: likewise.

    Returns:
        Pictures `[height, width, 3]`, bytes.
    """
    import mujoco

    model = env.model.mujoco
    model.vis.global_.offwidth = max(model.vis.global_.offwidth, width)
    model.vis.global_.offheight = max(model.vis.global_.offheight, height)
    try:
        renderer = mujoco.Renderer(model, height, width)
    except Exception as error:  # whatever the GL library at hand raises
        raise VideoError(f"MuJoCo cannot render here ({error}). Install a software renderer: {INSTALL_GL}") from error
    data = mujoco.MjData(model)
    camera = mujoco.MjvCamera()
    camera.type = mujoco.mjtCamera.mjCAMERA_TRACKING
    camera.trackbodyid = next(i for i, body in enumerate(env.model.bodies) if body.link > 0)
    camera.distance, camera.azimuth, camera.elevation = 4.0, 90.0, -15.0
    frames = []
    moments = np.arange(0.0, len(episode.qpos) * env.time_step, 1.0 / FRAMES_PER_SECOND)
    for moment in track(moments, "rendering", console=Console(stderr=True), transient=True):
        now = min(round(moment / env.time_step), len(episode.qpos) - 1)
        data.qpos[:] = episode.qpos[now]
        mujoco.mj_forward(model, data)
        renderer.update_scene(data, camera)
        if episode.target is not None:
            _add_flagpole(renderer.scene, episode.target[now])
        frames.append(renderer.render().copy())
    renderer.close()
    return frames


def _add_flagpole(scene: Any, place: np.ndarray) -> None:
    """Draw a red pole at a place of the plane; it reaches below the ground, which may not be level."""
    import mujoco

    size, middle = np.array([0.06, 3.0, 0.0]), np.array([*place, 0.0])
    colour = np.array([0.9, 0.1, 0.1, 1.0], np.float32)
    geom = scene.geoms[scene.ngeom]
    mujoco.mjv_initGeom(geom, mujoco.mjtGeom.mjGEOM_CYLINDER, size, middle, np.eye(3).ravel(), colour)
    scene.ngeom += 1


def write_film(frames: list[np.ndarray], file: Path) -> None:
    """Write pictures as a GIF or an MP4, by the suffix of the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".gif":
        from PIL import Image

        pictures = [Image.fromarray(frame).quantize(128) for frame in frames]
        rest, duration = pictures[1:], 1000 // FRAMES_PER_SECOND
        pictures[0].save(file, save_all=True, append_images=rest, duration=duration, loop=0)
    elif file.suffix == ".mp4":
        if importlib.util.find_spec("imageio_ffmpeg") is None:
            raise VideoError("MP4 needs an encoder: pip install slipstream-rl[video] (or write a .gif).")
        import imageio.v2 as imageio

        with warnings.catch_warnings():
            # JAX warns of every new process. The encoder is one that shares nothing with it.
            warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
            imageio.mimwrite(str(file), frames, fps=FRAMES_PER_SECOND)  # type: ignore[arg-type]
    else:
        raise VideoError(f"A film is a .gif or an .mp4 file, not {file.name!r}.")
