"""Films of robots, drawn by MuJoCo's renderer."""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from slipstream.training.film import FRAME_TIME, Film, FilmError
from slipstream.training.world_film import State

INSTALL_GL = "apt-get install libegl1 libgl1-mesa-dri"

FINER = 1.5
"""Frames are rendered so many times as wide and high, and made smaller: with a software renderer that takes half as
long as smoothing edges by several samples."""
SHADOW = 1024
"""Pixels of the map of shadows; at MuJoCo's own 4096 it takes longer than everything else."""

DISTANCE, TILT = 1.75, -15.0
"""Of the camera, in sizes of the robot, and in degrees, where the world does not say."""

SKY = (206, 217, 227)
FLAG = np.array([0.9, 0.1, 0.1, 1.0], np.float32)
GRID, GRID_REACH = np.array([0.3, 0.32, 0.35, 1.0], np.float32), 10
"""Colour of the lines on a floor without a texture, which lie a metre apart, and how many metres they go."""
SIDEWAYS = (0.3, 0.4, -1.0)
"""Where light goes instead of straight down: to the right, and away from the camera."""
DIM, BRIGHT = 0.1, 0.3
"""How bright MuJoCo lets be what no light falls on, and how bright it is in films."""
UNCOLOURED, PARTS = (0.5, 0.5, 0.5, 1.0), (0.85, 0.6, 0.35, 1.0)
"""What MuJoCo gives a geom without a colour, and what it has in films unless it is a plane."""
FLOOR, LIT_FLOOR = (1.0, 1.0, 1.0, 1.0), (0.54, 0.56, 0.59, 1.0)
"""Of planes without a colour: where there is no light but the camera's, and where there is."""


def start_renderer() -> None:
    """Raise a `FilmError` if MuJoCo cannot render here."""
    import mujoco

    with _naming_what_to_install():
        mujoco.GLContext(16, 16).free()


@contextmanager
def _naming_what_to_install() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # whatever the GL library at hand raises
        raise FilmError(f"MuJoCo cannot render here ({error}). Install a software renderer: {INSTALL_GL}") from error


def camera_of(env: Any) -> tuple[float, float]:
    """How far from a robot the camera is in metres, and how it is tilted in degrees."""
    return env.camera or (DISTANCE * robot_size(env.model.mujoco), TILT)


def robot_size(model: Any, with_world: bool = False) -> float:
    """How large a robot is in its default pose, in metres, without what is fixed to the world or with it."""
    import mujoco

    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    endless = (int(mujoco.mjtGeom.mjGEOM_PLANE), int(mujoco.mjtGeom.mjGEOM_HFIELD))
    seen = np.flatnonzero(~np.isin(model.geom_type, endless) & ((model.geom_bodyid > 0) | with_world))
    reach = model.geom_rbound[seen, None]
    low, high = (data.geom_xpos[seen] - reach).min(axis=0), (data.geom_xpos[seen] + reach).max(axis=0)
    return float(np.linalg.norm(high - low) / np.sqrt(2.0))


class RobotFilm(Film):
    """A film of a robot, followed by the camera. Between two control steps it moves evenly from pose to pose."""

    def __init__(self, env: Any, states: Sequence[State], width: int, height: int):
        import mujoco

        last = len(states) - 1
        count = int(1000.0 * last * env.time_step / FRAME_TIME + 1e-6) + 1
        super().__init__(FRAME_TIME, np.minimum(np.arange(count) * FRAME_TIME / (1000.0 * env.time_step), last))
        self.poses = np.stack([np.atleast_2d(state["qpos"])[:, 0] for state in states]).astype(np.float64)
        self.targets = [state["target"][:, 0] for state in states] if "target" in states[0] else None
        env.show(states[0])
        self.model = copy.copy(env.model.mujoco)
        self.data = mujoco.MjData(self.model)
        self.size = (width, height)
        _calm(self.model)
        _light(self.model)
        _colour(self.model)
        self.has_sky = mujoco.mjtTexture.mjTEXTURE_SKYBOX in self.model.tex_type
        self.bare_floors = _bare_floors(self.model)
        self.renderer = self._renderer(round(FINER * width), round(FINER * height))
        self.camera = mujoco.MjvCamera()
        self.camera.type = mujoco.mjtCamera.mjCAMERA_TRACKING
        self.camera.trackbodyid = next(i for i, body in enumerate(env.model.bodies) if body.link > 0)
        self.camera.azimuth, (self.camera.distance, self.camera.elevation) = 90.0, camera_of(env)

    def _renderer(self, width: int, height: int) -> Any:
        import mujoco

        view = self.model.vis
        view.global_.offwidth, view.global_.offheight = width, height
        view.quality.offsamples, view.quality.shadowsize = 0, SHADOW
        if self.model.nlight == 0:
            view.headlight.ambient[:], view.headlight.diffuse[:] = 0.4, 0.6
        elif np.allclose(view.headlight.ambient, DIM):  # it was not chosen, and shadows are nearly black
            view.headlight.ambient[:] = BRIGHT
        with _naming_what_to_install():
            return mujoco.Renderer(self.model, height, width)

    def frame(self, number: int) -> np.ndarray:
        import mujoco
        from PIL import Image

        self.data.qpos[:] = self._pose(float(self.moments[number]))
        mujoco.mj_forward(self.model, self.data)
        # Lights go with the robot: far from where they begin there would be no shadow.
        self.data.light_xpos[self.model.light_bodyid == 0, :2] += self.data.xpos[self.camera.trackbodyid, :2]
        self.renderer.update_scene(self.data, self.camera)
        scene = self.renderer.scene
        scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
        for height in self.bare_floors:
            _add_grid(scene, self.data.xpos[self.camera.trackbodyid], height)
        if self.targets is not None:
            _add_flagpole(scene, self.targets[int(self.moments[number])])
        picture = self.renderer.render()
        if not self.has_sky:
            picture = np.where(picture.any(axis=2, keepdims=True), picture, np.array(SKY, np.uint8))
        return np.asarray(Image.fromarray(picture).resize(self.size, Image.Resampling.LANCZOS))

    def _pose(self, moment: float) -> np.ndarray:
        """The pose at a moment between two steps: on the way from one to the other, turns included."""
        import mujoco

        before, share = int(moment), moment % 1.0
        pose = self.poses[before].copy()
        if share:
            velocity = np.zeros(self.model.nv)
            mujoco.mj_differentiatePos(self.model, velocity, 1.0, pose, self.poses[before + 1])
            mujoco.mj_integratePos(self.model, pose, velocity, share)
        return pose

    def close(self) -> None:
        self.renderer.close()


def _calm(model: Any) -> None:
    """Take black and white squares off the floor, and dark skies away: they draw all eyes from the robot."""
    import mujoco

    for texture in np.flatnonzero(model.tex_type == int(mujoco.mjtTexture.mjTEXTURE_SKYBOX)):
        _pixels(model, int(texture))[:, :3] = SKY
    for geom in np.flatnonzero(model.geom_type == int(mujoco.mjtGeom.mjGEOM_PLANE)):
        material = int(model.geom_matid[geom])
        textures = [int(t) for t in model.mat_texid[material] if t >= 0] if material >= 0 else []
        if any(_is_grey(_pixels(model, texture)) for texture in textures):
            model.geom_matid[geom], model.geom_rgba[geom] = -1, UNCOLOURED


def _light(model: Any) -> None:
    """Let light that falls straight down come from the side, so that shadows have the robot's form; make them fine."""
    import mujoco

    size = robot_size(model)
    down = (model.light_type == int(mujoco.mjtLightType.mjLIGHT_DIRECTIONAL)) & (model.light_bodyid == 0)
    for light in np.flatnonzero(down & (model.light_dir[:, 2] < -0.99)):
        model.light_dir[light] = np.array(SIDEWAYS) / np.linalg.norm(SIDEWAYS)
        model.light_pos[light] = -3.0 * size * model.light_dir[light]
    view = model.vis.map
    view.shadowclip = min(view.shadowclip, 2.0 * size / model.stat.extent)


def _pixels(model: Any, texture: int) -> np.ndarray:
    """Of a texture, `[pixels, channels]`, to look at and to write to."""
    channels, start = int(model.tex_nchannel[texture]), int(model.tex_adr[texture])
    size = int(model.tex_width[texture]) * int(model.tex_height[texture]) * channels
    return model.tex_data[start : start + size].reshape(-1, channels)


def _is_grey(pixels: np.ndarray) -> bool:
    """Whether there is no colour but grey, and it goes from dark to bright."""
    colours = pixels[:, :3].astype(int)
    return bool(np.ptp(colours, axis=1).max() < 8 and colours.min() < 64 and colours.max() > 128)


def _colour(model: Any) -> None:
    """Give geoms colours that have none."""
    import mujoco

    bare = (model.geom_matid < 0) & np.all(model.geom_rgba == np.array(UNCOLOURED, np.float32), axis=1)
    plane = model.geom_type == int(mujoco.mjtGeom.mjGEOM_PLANE)
    model.geom_rgba[bare & plane] = LIT_FLOOR if model.nlight else FLOOR
    model.geom_rgba[bare & ~plane] = PARTS


def _bare_floors(model: Any) -> list[float]:
    """Heights of wide level planes that look the same everywhere: nobody would see a robot move over them."""
    import mujoco

    planes = np.flatnonzero(model.geom_type == int(mujoco.mjtGeom.mjGEOM_PLANE))
    level = [g for g in planes if model.geom_bodyid[g] == 0 and abs(model.geom_quat[g, 0]) > 0.999]
    wide = [g for g in level if not 0.0 < model.geom_size[g, 0] < 2.0]  # 0 is without end
    return [float(model.geom_pos[g, 2]) for g in wide if model.geom_matid[g] < 0]


def _add_grid(scene: Any, around: np.ndarray, height: float) -> None:
    import mujoco

    x, y = np.round(around[:2])
    for offset in range(-GRID_REACH, GRID_REACH + 1):
        along = ((x + offset, y - GRID_REACH), (x + offset, y + GRID_REACH))
        across = ((x - GRID_REACH, y + offset), (x + GRID_REACH, y + offset))
        for start, end in (along, across):
            geom = _add_geom(scene, mujoco.mjtGeom.mjGEOM_LINE, np.zeros(3), np.zeros(3), GRID)
            begin, stop = (np.array([*place, height + 0.002]) for place in (start, end))
            mujoco.mjv_connector(geom, mujoco.mjtGeom.mjGEOM_LINE, 2.0, begin, stop)


def _add_flagpole(scene: Any, place: np.ndarray) -> None:
    """Draw a red pole at a place of the plane; it reaches below the ground, which may not be level."""
    import mujoco

    size, middle = np.array([0.06, 3.0, 0.0]), np.array([*place, 0.0])
    _add_geom(scene, mujoco.mjtGeom.mjGEOM_CYLINDER, size, middle, FLAG)


def _add_geom(scene: Any, kind: Any, size: np.ndarray, middle: np.ndarray, colour: np.ndarray) -> Any:
    import mujoco

    geom = scene.geoms[scene.ngeom]
    mujoco.mjv_initGeom(geom, kind, size, middle, np.eye(3).ravel(), colour)
    scene.ngeom += 1
    return geom
