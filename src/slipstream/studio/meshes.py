"""The geoms of a MuJoCo model as coloured triangles, in the frames of their bodies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.training.robot_film import PARTS, UNCOLOURED

SHOWN_GROUPS = 3
"""MuJoCo's viewer shows the groups 0 to 2; what is in others is usually there for collisions alone."""

PLANE, FIELD, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH = range(8)
"""MuJoCo's numbers for kinds of geoms."""

MOST_FACES = 4000
"""Of a mesh from a file; finer ones are made coarser: there are hundreds of robots."""

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Part:
    """What of a body has one colour.

    Attributes:
        body: its number.
        vertices: `[points, 3]`, in the body's frame.
        faces: `[triangles, 3]`, numbers of points.
        colour: red, green and blue, 0 to 255.
        opacity: 1 is solid.
    """

    body: int
    vertices: np.ndarray
    faces: np.ndarray
    colour: Colour
    opacity: float


def robot_parts(model: Any) -> list[Part]:
    """All geoms but planes and height fields, those of a body that have the same colour put together."""
    shown = [g for g in range(model.ngeom) if model.geom_type[g] not in (PLANE, FIELD) and geom_rgba(model, g)[3] > 0]
    seen = [g for g in shown if model.geom_group[g] < SHOWN_GROUPS] or shown
    together: dict[tuple[int, tuple[float, ...]], list[int]] = {}
    for geom in seen:
        together.setdefault((int(model.geom_bodyid[geom]), geom_rgba(model, geom)), []).append(geom)
    parts = []
    for (body, rgba), geoms in together.items():
        vertices, faces = joined([_placed(model, g) for g in geoms])
        red, green, blue = (round(255 * min(max(c, 0.0), 1.0)) for c in rgba[:3])
        parts.append(Part(body, vertices, faces, (red, green, blue), rgba[3]))
    return parts


def geom_rgba(model: Any, geom: int) -> tuple[float, ...]:
    """A geom's own colour, or else that of its material, or else one that can be seen."""
    own = tuple(float(c) for c in model.geom_rgba[geom])
    if not np.allclose(own, UNCOLOURED):
        return own
    material = int(model.geom_matid[geom])
    if material < 0:
        return PARTS
    rgba = np.array(model.mat_rgba[material], np.float64)
    textures = [t for t in np.atleast_1d(model.mat_texid[material]) if t >= 0]
    if textures:
        rgba[:3] *= _texture_colour(model, int(textures[0]))
    return tuple(float(c) for c in rgba)


def _texture_colour(model: Any, texture: int) -> np.ndarray:
    """The colour that most of a texture has, 0 to 1."""
    channels = int(model.tex_nchannel[texture])
    size = int(model.tex_width[texture]) * int(model.tex_height[texture]) * channels
    start = int(model.tex_adr[texture])
    pixels = np.asarray(model.tex_data[start : start + size]).reshape(-1, channels)
    return np.median(pixels[:, : min(channels, 3)], axis=0) / 255.0 * np.ones(3)


def _placed(model: Any, geom: int) -> tuple[np.ndarray, np.ndarray]:
    """A geom's triangles in the frame of its body."""
    vertices, faces = _triangles(model, geom)
    return rotated(model.geom_quat[geom], vertices) + model.geom_pos[geom], faces


def _triangles(model: Any, geom: int) -> tuple[np.ndarray, np.ndarray]:
    """A geom's triangles in its own frame."""
    from trimesh import creation

    kind, size = int(model.geom_type[geom]), model.geom_size[geom]
    if kind == MESH:
        return _mesh(model, int(model.geom_dataid[geom]))
    if kind == SPHERE:
        shape = creation.icosphere(2, float(size[0]))
    elif kind == ELLIPSOID:
        shape = creation.icosphere(2, 1.0)
        shape.apply_scale(size)
    elif kind == CAPSULE:
        shape = creation.capsule(2.0 * float(size[1]), float(size[0]), count=[14, 10])
    elif kind == CYLINDER:
        shape = creation.cylinder(float(size[0]), 2.0 * float(size[1]), sections=20)
    else:
        shape = creation.box(2.0 * np.asarray(size))
    return np.asarray(shape.vertices, np.float32), np.asarray(shape.faces, np.uint32)


def _mesh(model: Any, mesh: int) -> tuple[np.ndarray, np.ndarray]:
    points = slice(model.mesh_vertadr[mesh], model.mesh_vertadr[mesh] + model.mesh_vertnum[mesh])
    triangles = slice(model.mesh_faceadr[mesh], model.mesh_faceadr[mesh] + model.mesh_facenum[mesh])
    vertices, faces = np.asarray(model.mesh_vert[points]), np.asarray(model.mesh_face[triangles]).astype(np.uint32)
    if len(faces) > MOST_FACES:
        return coarser(vertices, faces)
    return vertices, faces


def coarser(vertices: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A mesh with points that are close together made one, until at most `MOST_FACES` triangles are left."""
    low, extent = vertices.min(axis=0), float(np.ptp(vertices, axis=0).max())
    for cells in (64, 48, 32, 24, 16):
        cell = np.round((vertices - low) * (cells / extent)).astype(np.int64)
        _, first, number = np.unique(cell, axis=0, return_index=True, return_inverse=True)
        fewer = number.reshape(-1)[faces]
        whole = (fewer[:, 0] != fewer[:, 1]) & (fewer[:, 1] != fewer[:, 2]) & (fewer[:, 2] != fewer[:, 0])
        if whole.sum() <= MOST_FACES:
            break
    return vertices[first], fewer[whole].astype(np.uint32)


def field_mesh(heights: np.ndarray, half_x: float, half_y: float) -> tuple[np.ndarray, np.ndarray]:
    """A height field as triangles.

    Args:
        heights: `[rows, columns]` (y, x), in metres.
        half_x: from its middle to its edges along x.
        half_y: likewise.
    """
    rows, columns = heights.shape
    x, y = np.meshgrid(np.linspace(-half_x, half_x, columns), np.linspace(-half_y, half_y, rows))
    corner = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).reshape(-1)
    right, above, across = corner + 1, corner + columns, corner + columns + 1
    faces = np.concatenate([np.stack([corner, right, across], 1), np.stack([corner, across, above], 1)])
    return np.stack([x, y, heights], -1).reshape(-1, 3).astype(np.float32), faces.astype(np.uint32)


def joined(meshes: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Several meshes as one."""
    starts = np.cumsum([0, *(len(vertices) for vertices, _ in meshes)])
    vertices = np.concatenate([vertices for vertices, _ in meshes]).astype(np.float32)
    return vertices, np.concatenate([faces + start for (_, faces), start in zip(meshes, starts)]).astype(np.uint32)


def rotated(quaternion: Any, vectors: np.ndarray) -> np.ndarray:
    """Vectors `[n, 3]` turned by a quaternion (w, x, y, z)."""
    w, axis = float(quaternion[0]), np.asarray(quaternion[1:], np.float64)
    across = 2.0 * np.cross(axis, vectors)
    return vectors + w * across + np.cross(axis, across)
