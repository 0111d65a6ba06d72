"""How many of many random contact states are wrong in float32, where MuJoCo in double precision is the judge.

    python benchmarks/contact_states.py                                   # Gymnasium's and MuJoCo's robots
    python benchmarks/contact_states.py go2=~/menagerie/unitree_go2/scene.xml anymal=~/.../scene.xml --states 10000

A state is one that MuJoCo comes to with random controls from random poses, in which something touches, rounded to
float32. Both engines compute the accelerations from the same rounded numbers. A state is off if they differ by more
than 1e-3 of the largest of the state (or of 1, if that is more). States with contacts that are left out (more
self-contacts than slots, pairs that are not simulated) are told apart. Mesh files that are not beside a model are
looked for in `--assets`.
"""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np

from models import Assets, compile_model, find_assets
from slipstream import arrays, physics
from slipstream.physics.agreement import control_ranges

ASSETS = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
OWN = {name: str(ASSETS / f"{name}.xml") for name in ("ant", "humanoid", "walker2d", "hopper", "half_cheetah")}
TOLERANCE = 1e-3
EPISODE = 40
"""After so many states MuJoCo starts over."""


def read(path: str, assets: Assets) -> mujoco.MjModel:
    m: Any = compile_model(Path(path).expanduser(), assets)[0]
    m.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER  # with others qacc is that of a later stage
    m.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    m.opt.iterations, m.opt.ls_iterations = 100, 50
    m.opt.tolerance, m.opt.ls_tolerance = 1e-15, 1e-6
    m.opt.ccd_tolerance, m.opt.ccd_iterations = 1e-12, 1000  # by default where solids touch is itself off by up to 1 %
    return m


def contact_states(m: mujoco.MjModel, left_out: frozenset, count: int, seed: int) -> list[np.ndarray]:
    """qpos, qvel, ctrl, act and MuJoCo's qacc, one row per state; and which have a contact that is left out."""
    rng, data = np.random.default_rng(seed), mujoco.MjData(m)
    low, high = control_ranges(m)
    columns: list[list] = [[] for _ in range(6)]
    tries = 0
    while len(columns[0]) < count and tries < 20 * count:
        if tries % EPISODE == 0 or not np.isfinite(data.qacc).all():
            mujoco.mj_resetData(m, data)
            if m.nkey and rng.random() < 0.5:
                mujoco.mj_resetDataKeyframe(m, data, int(rng.integers(m.nkey)))
            mujoco.mj_integratePos(m, data.qpos, 0.1 * rng.normal(size=m.nv), 1.0)
            data.qvel[:] = rng.normal(size=m.nv) * rng.choice([0.1, 0.5, 2.0])
        tries += 1
        data.ctrl[:] = rng.uniform(low, high)
        for _ in range(int(rng.integers(1, 8))):
            mujoco.mj_step(m, data)
        for values in (data.qpos, data.qvel, data.ctrl, data.act):
            values[:] = values.astype(np.float32)
        mujoco.mj_forward(m, data)
        if data.ncon == 0 or not np.isfinite(data.qacc).all() or np.abs(data.qacc).max() > 1e6:
            continue
        touching = {tuple(sorted(geoms)) for geoms in data.contact.geom.tolist()}
        row = (data.qpos.copy(), data.qvel.copy(), data.ctrl.copy(), data.act.copy(), data.qacc.copy())
        for column, value in zip(columns, (*row, bool(touching & left_out))):
            column.append(value)
    return [np.array(column) for column in columns]


def compare(name: str, path: str, count: int, seed: int, self_contacts: int, assets: Assets) -> dict:
    m = read(path, assets)
    model = physics.load(m, leave_out_pairs=True, self_contacts=self_contacts)
    qpos, qvel, ctrl, act, expected, left_out = contact_states(m, model.left_out.geoms, count, seed)
    number = len(qpos)
    begin = time.perf_counter()
    batch = physics.Batch(model, number)
    batch.set_state(qpos.T, qvel.T, act=act.T.reshape(model.na, number))
    batch.step(batch.controls(ctrl.T.reshape(model.nu, number)))
    dropped = arrays.to_numpy(batch.state.dropped) > 0
    found = batch.get_state()[2].T
    error = np.abs(found - expected).max(-1) / np.maximum(1.0, np.abs(expected).max(-1))
    error = np.where(np.isfinite(error), error, np.inf)

    counts = ~(left_out | dropped)
    return {
        "robot": name,
        "states": int(counts.sum()),
        "off": int((error[counts] > TOLERANCE).sum()),
        "median": float(np.median(error[counts])),
        "99.9 %": float(np.quantile(error[counts], 0.999)),
        "left out": int((~counts).sum()),
        "seconds": time.perf_counter() - begin,
    }


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("robots", nargs="*", metavar="NAME=FILE", help="beside Gymnasium's")
    parser.add_argument("--only", action="store_true", help="without Gymnasium's")
    parser.add_argument("--assets", action="append", default=[], help="a folder with mesh files")
    parser.add_argument("--states", type=int, default=10_000)
    parser.add_argument("--self-contacts", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    options = parsed()
    mujoco.set_mju_user_warning(lambda message: None)
    assets = find_assets([Path(folder).expanduser() for folder in options.assets])
    robots = {} if options.only else dict(OWN)
    robots |= dict(robot.split("=", 1) for robot in options.robots)
    print("| robot | states | off by more than 1e-3 | median | 99.9 % | with contacts left out |")
    print("|---|---|---|---|---|---|")
    for name, path in robots.items():
        try:
            row = compare(name, path, options.states, options.seed, options.self_contacts, assets)
        except (physics.ModelError, ValueError) as error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            continue
        line = f"| {name} | {row['states']:,} | {row['off']} | {row['median']:.0e} | {row['99.9 %']:.0e} |"
        print(f"{line} {row['left out']:,} |", flush=True)


if __name__ == "__main__":
    main()
