"""Vectors, rotations and spatial algebra on traced scalars.

A scalar is either a Dr.Jit array (one number per world) or a Python float (the same number in every
world). Arithmetic here folds the Python floats: multiplying by 0.0 or 1.0 and adding 0.0 leave no trace
in the kernel, so that a hinge about a coordinate axis costs what it should.

Vectors and quaternions (w, x, y, z) are tuples of scalars, a rotation matrix is a tuple of three rows.
A spatial vector is a tuple of six scalars: the angular part first, then the linear part at the reference
point. Symmetric matrices are stored as their lower triangle, row by row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import drjit as dr

Scalar = Any
Vector = Sequence[Scalar]
Matrix = Sequence[Sequence[Scalar]]

ZERO3 = (0.0, 0.0, 0.0)
ZERO6 = (0.0,) * 6
ZERO21 = (0.0,) * 21
IDENTITY = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def is_constant(value: Scalar) -> bool:
    return isinstance(value, float)


def is_single(value: Scalar) -> bool:
    """Whether a scalar is an array of float32."""
    return not is_constant(value) and dr.type_v(value) == dr.VarType.Float32


def add(a: Scalar, b: Scalar) -> Scalar:
    if is_constant(a) and a == 0.0:
        return b
    if is_constant(b) and b == 0.0:
        return a
    return a + b


def sub(a: Scalar, b: Scalar) -> Scalar:
    if is_constant(b) and b == 0.0:
        return a
    if is_constant(a) and a == 0.0:
        return -b
    return a - b


def mul(a: Scalar, b: Scalar) -> Scalar:
    if is_constant(b):
        a, b = b, a
    if is_constant(a):
        if a == 0.0:
            return 0.0
        if a == 1.0:
            return b
        if a == -1.0:
            return -b
    return a * b


def fma(a: Scalar, b: Scalar, c: Scalar) -> Scalar:
    """a * b + c, in one rounding where none of the three is constant enough to fold."""
    if is_constant(b):
        a, b = b, a
    if is_constant(a) and a in (0.0, 1.0, -1.0):
        if a == 0.0:
            return c
        return add(c, b) if a == 1.0 else sub(c, b)
    if is_constant(c) and c == 0.0:
        return a * b
    if is_constant(a) and is_constant(b):
        return add(a * b, c)
    return dr.fma(a, b, c)


def dot(a: Vector, b: Vector, start: Scalar = 0.0) -> Scalar:
    """start + sum of a[i] * b[i]."""
    total = start
    for x, y in zip(a, b):
        total = fma(x, y, total)
    return total


def plus(a: Vector, b: Vector) -> tuple:
    return tuple(add(x, y) for x, y in zip(a, b))


def minus(a: Vector, b: Vector) -> tuple:
    return tuple(sub(x, y) for x, y in zip(a, b))


def negative(a: Vector) -> tuple:
    return tuple(sub(0.0, x) for x in a)


def scaled(s: Scalar, a: Vector, start: Vector | None = None) -> tuple:
    """s * a, or start + s * a."""
    if start is None:
        return tuple(mul(s, x) for x in a)
    return tuple(fma(s, x, y) for x, y in zip(a, start))


def cross(a: Vector, b: Vector, start: Vector = ZERO3) -> tuple:
    """start + a x b."""
    return tuple(
        fma(a[i], b[j], fma(sub(0.0, a[j]), b[i], start[k])) for k, (i, j) in enumerate(((1, 2), (2, 0), (0, 1)))
    )


def normalized(a: Vector) -> tuple:
    squared = dot(a, a)
    if is_constant(squared):
        return scaled(1.0 / math.sqrt(squared), a)
    return scaled(dr.rcp(dr.sqrt(squared)), a)


def absolute(a: Scalar) -> Scalar:
    return abs(a) if is_constant(a) else dr.abs(a)


def maximum(a: Scalar, b: Scalar) -> Scalar:
    return max(a, b) if is_constant(a) and is_constant(b) else dr.maximum(a, b)


def minimum(a: Scalar, b: Scalar) -> Scalar:
    return min(a, b) if is_constant(a) and is_constant(b) else dr.minimum(a, b)


def clip(value: Scalar, low: float, high: float) -> Scalar:
    if math.isfinite(low):
        value = maximum(value, low)
    return minimum(value, high) if math.isfinite(high) else value


def sum_of(values: Iterable[Scalar]) -> Scalar:
    total = 0.0
    for value in values:
        total = add(total, value)
    return total


# Rotations ------------------------------------------------------------------------------------------


def column(m: Matrix, k: int) -> tuple:
    return m[0][k], m[1][k], m[2][k]


def rotate(m: Matrix, v: Vector, start: Vector = ZERO3) -> tuple:
    """start + m v."""
    return tuple(dot(row, v, s) for row, s in zip(m, start))


def rotate_back(m: Matrix, v: Vector) -> tuple:
    """The transpose of m, times v."""
    return tuple(dot(column(m, k), v) for k in range(3))


def matmul(a: Matrix, b: Matrix) -> tuple:
    return tuple(tuple(dot(row, column(b, k)) for k in range(3)) for row in a)


def axis_rotation(axis: Vector, angle: Scalar) -> tuple:
    """The rotation matrix about a constant unit axis."""
    s, c = dr.sincos(angle)
    x, y, z = (round(a, 15) for a in axis)
    if max(abs(x), abs(y), abs(z)) == 1.0:
        return _coordinate_rotation((x, y, z), s, c)
    rest = 1.0 - c
    return (
        (fma(x * x, rest, c), fma(x * y, rest, mul(-z, s)), fma(x * z, rest, mul(y, s))),
        (fma(x * y, rest, mul(z, s)), fma(y * y, rest, c), fma(y * z, rest, mul(-x, s))),
        (fma(x * z, rest, mul(-y, s)), fma(y * z, rest, mul(x, s)), fma(z * z, rest, c)),
    )


def _coordinate_rotation(axis: Vector, s: Scalar, c: Scalar) -> tuple:
    k = next(i for i in range(3) if axis[i] != 0.0)
    s = mul(float(axis[k]), s)
    rows = [[0.0] * 3 for _ in range(3)]
    i, j = (k + 1) % 3, (k + 2) % 3
    rows[k][k] = 1.0
    rows[i][i] = rows[j][j] = c
    rows[j][i] = s
    rows[i][j] = sub(0.0, s)
    return tuple(tuple(row) for row in rows)


def quaternion_matrix(q: Vector) -> tuple:
    """The rotation matrix of a unit quaternion."""
    w, x, y, z = q
    x2, y2, z2 = add(x, x), add(y, y), add(z, z)
    xx, yy, zz = mul(x, x2), mul(y, y2), mul(z, z2)
    xy, xz, yz = mul(x, y2), mul(x, z2), mul(y, z2)
    wx, wy, wz = mul(w, x2), mul(w, y2), mul(w, z2)
    return (
        (sub(1.0, add(yy, zz)), sub(xy, wz), add(xz, wy)),
        (add(xy, wz), sub(1.0, add(xx, zz)), sub(yz, wx)),
        (sub(xz, wy), add(yz, wx), sub(1.0, add(xx, yy))),
    )


def quaternion_product(a: Vector, b: Vector) -> tuple:
    aw, ax, ay, az = a
    bw, bx, by, bz = b
    return (
        dot((aw, sub(0.0, ax), sub(0.0, ay), sub(0.0, az)), (bw, bx, by, bz)),
        dot((aw, ax, ay, sub(0.0, az)), (bx, bw, bz, by)),
        dot((aw, sub(0.0, ax), ay, az), (by, bz, bw, bx)),
        dot((aw, ax, sub(0.0, ay), az), (bz, by, bx, bw)),
    )


def rotation_vector_quaternion(v: Vector) -> tuple:
    """The quaternion of a rotation by |v| about v, also where v vanishes."""
    squared = dot(v, v)
    angle = dr.sqrt(squared)
    s, c = dr.sincos(0.5 * angle)
    small = squared < 1e-16
    ratio = dr.select(small, 0.5, s / dr.select(small, 1.0, angle))
    return (c, *scaled(ratio, v))


def quaternion_rotation_vector(q: Vector) -> tuple:
    """The rotation vector, of length at most pi, of a unit quaternion."""
    w, x, y, z = q
    flip = dr.select(w < 0.0, -1.0, 1.0)
    w, x, y, z = w * flip, x * flip, y * flip, z * flip
    length = dr.sqrt(dot((x, y, z), (x, y, z)))
    small = length < 1e-12
    ratio = dr.select(small, 2.0, 2.0 * dr.atan2(length, w) / dr.select(small, 1.0, length))
    return scaled(ratio, (x, y, z))


# Spatial algebra ------------------------------------------------------------------------------------


def motion_cross(v: Vector, m: Vector) -> tuple:
    """How a motion m fixed to a body of velocity v changes."""
    return (*cross(v[:3], m[:3]), *cross(v[:3], m[3:], cross(v[3:], m[:3])))


def force_cross(v: Vector, f: Vector) -> tuple:
    """How a force f fixed to a body of velocity v changes."""
    return (*cross(v[:3], f[:3], cross(v[3:], f[3:])), *cross(v[:3], f[3:]))


def symmetric3_times(s: Vector, v: Vector, start: Vector = ZERO3) -> tuple:
    """start + s v with s = (xx, xy, yy, xz, yz, zz)."""
    xx, xy, yy, xz, yz, zz = s
    return dot((xx, xy, xz), v, start[0]), dot((xy, yy, yz), v, start[1]), dot((xz, yz, zz), v, start[2])


def inertia_times(inertia: Vector, motion: Vector) -> tuple:
    """The momentum of a rigid body: inertia is (mass, three first moments, six second moments)."""
    mass, first, second = inertia[0], inertia[1:4], inertia[4:]
    angular = cross(first, motion[3:], symmetric3_times(second, motion[:3]))
    linear = cross(motion[:3], first, scaled(mass, motion[3:]))
    return (*angular, *linear)


def symmetric6_times(s: Vector, v: Vector) -> tuple:
    """s v, s being the 21 numbers of the lower triangle of a symmetric 6 x 6 matrix, row by row."""

    def at(i: int, j: int) -> Scalar:
        i, j = max(i, j), min(i, j)
        return s[i * (i + 1) // 2 + j]

    return tuple(dot([at(i, j) for j in range(6)], v) for i in range(6))


def point_stiffness(k: Vector, p: Vector) -> tuple:
    """X^T k X for a symmetric 3 x 3 stiffness k at the point p, X being the motion of that point.

    The result is the lower triangle (21 numbers) of a 6 x 6 matrix.
    """
    xx, xy, yy, xz, yz, zz = k
    rows = ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz))
    # Motion of the point: v + w x p. Its transpose on a force f is (p x f, f).
    moments = [cross(p, row) for row in rows]  # moments[j] = p x k[:, j], the angular rows of column 3 + j
    angular = [cross(p, (moments[0][i], moments[1][i], moments[2][i])) for i in range(3)]
    return (
        angular[0][0], angular[1][0], angular[1][1], angular[2][0], angular[2][1], angular[2][2],
        moments[0][0], moments[0][1], moments[0][2], xx,
        moments[1][0], moments[1][1], moments[1][2], xy, yy,
        moments[2][0], moments[2][1], moments[2][2], xz, yz, zz,
    )  # fmt: skip


def point_velocity(motion: Vector, p: Vector) -> tuple:
    """The linear velocity of the point p of a body."""
    return cross(motion[:3], p, motion[3:])


def point_force(f: Vector, p: Vector) -> tuple:
    """The spatial force of a force f at the point p."""
    return (*cross(p, f), *f)
