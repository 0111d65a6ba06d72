"""Physics against MuJoCo's own batch engine, side by side: same robots, same threads, same random actions.

    python benchmarks/physics.py                 # the table
    python benchmarks/physics.py --curve         # and the cost by number of worlds, with the figure
    python benchmarks/physics.py --peers         # and Brax and MJX, in a virtual environment of their own
    python benchmarks/physics.py --models go2=~/menagerie/unitree_go2/scene.xml      # other robots, from their MJCF

An env step is `frame_skip` physics steps of the Euler integrator with Newton's method; a robot that falls (or
1,000 steps) starts over from a slightly random pose, in both engines. MuJoCo runs with its default number of
solver iterations and tolerance. Both are measured in turns, the best of a few rounds counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import drjit as dr
import gymnasium
import mujoco
import mujoco.batch
import numpy as np

from peer_environment import peer_python
from slipstream import arrays, physics

ROOT = Path(__file__).resolve().parent
ASSETS = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
MJX_HUMANOID = Path(mujoco.__file__).parent / "mjx" / "test_data" / "humanoid" / "humanoid.xml"
"""MuJoCo's own humanoid, which comes with MJX."""


@dataclass(frozen=True)
class Robot:
    """A robot, its frame skip, and the heights between which it has not fallen."""

    file: str
    frame_skip: int
    height: int  # address in qpos
    healthy: tuple[float, float]
    self_collision: bool = True
    leave_out_pairs: bool = False
    keyframe: bool = False  # whether it starts from its first keyframe


ROBOTS = {
    "humanoid": Robot("humanoid.xml", 5, 2, (1.0, 2.0)),
    "humanoid, floor only": Robot("humanoid.xml", 5, 2, (1.0, 2.0), self_collision=False),
    "MuJoCo's humanoid": Robot(str(MJX_HUMANOID), 5, 2, (0.8, 3.0)),
    "ant": Robot("ant.xml", 5, 2, (0.2, 1.0)),
    "hopper": Robot("hopper.xml", 4, 1, (0.7, 3.0)),
    "walker2d": Robot("walker2d.xml", 4, 1, (0.8, 2.0)),
    "half_cheetah": Robot("half_cheetah.xml", 5, 1, (-9.0, 9.0)),
}
MAX_STEPS = 1000
NOISE = 0.01


def read_model(robot: Robot) -> mujoco.MjModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m = mujoco.MjModel.from_xml_path(str(ASSETS / robot.file) if not os.path.isabs(robot.file) else robot.file)
    m.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    m.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    m.opt.iterations, m.opt.tolerance = 100, 1e-8
    if not robot.self_collision:
        fixed = np.array([m.body_weldid[b] == 0 for b in m.geom_bodyid])
        collides = (m.geom_contype != 0) | (m.geom_conaffinity != 0)
        m.geom_contype[:] = np.where(collides & ~fixed, 1, 0)
        m.geom_conaffinity[:] = np.where(collides & fixed, 1, 0)
    return m


def legged(file: str, leave_out_pairs: bool) -> Robot:
    """A robot on a free joint, which has fallen below half the height it starts at; 20 ms per env step."""
    m = mujoco.MjModel.from_xml_path(file)
    height = float(m.key_qpos[0, 2] if m.nkey else m.qpos0[2])
    frame_skip = max(1, round(0.02 / m.opt.timestep))
    return Robot(
        file, frame_skip, 2, (0.5 * height, 2.0 * height), leave_out_pairs=leave_out_pairs, keyframe=m.nkey > 0
    )


def start_pose(m: mujoco.MjModel, robot: Robot) -> np.ndarray:
    return m.key_qpos[0] if robot.keyframe else m.qpos0


def action_pool(m: mujoco.MjModel, worlds: int, count: int = 8) -> np.ndarray:
    """Random actions, [count, nu, worlds]."""
    low, high = m.actuator_ctrlrange.T
    limited = m.actuator_ctrllimited.astype(bool)
    low, high = np.where(limited, low, -1.0), np.where(limited, high, 1.0)
    rng = np.random.default_rng(0)
    return rng.uniform(low[:, None], high[:, None], (count, m.nu, worlds))


class Slipstream:
    """Our engine, with resets inside the kernel."""

    def __init__(self, robot: Robot, worlds: int) -> None:
        m = read_model(robot)
        self.robot, self.worlds = robot, worlds
        self.model = physics.load(m, leave_out_pairs=robot.leave_out_pairs)
        self.batch = physics.Batch(self.model, worlds, substeps=robot.frame_skip)
        self.actions = [self.batch.controls(a) for a in action_pool(m, worlds)]
        starts = start_pose(m, robot)[:, None] + NOISE * np.random.default_rng(1).uniform(
            -1, 1, (self.model.nq, worlds)
        )
        self.batch.set_state(starts, np.zeros((self.model.nv, worlds)))
        self.starts = list(self.batch.state.qpos)
        self.state = self.batch.state
        # Worlds start at different ages, so that they do not all end at once.
        ages = np.random.default_rng(2).uniform(0, MAX_STEPS, worlds)
        self.age = self.batch.kind(ages) + dr.opaque(self.batch.kind, 0.0, worlds)
        self.starts = [q + dr.opaque(self.batch.kind, 0.0, worlds) for q in self.starts]
        dr.eval(self.age, self.starts)
        read = physics.tables(self.model, arrays.array_types("auto"))
        self.advance = dr.freeze(self._advance, state_fn=lambda *_: read)
        self.count = 0

    def _advance(self, state: physics.State, age, starts: list, action: list):
        new = physics.step(self.model, state, action, substeps=self.robot.frame_skip)
        low, high = self.robot.healthy
        height = new.qpos[self.robot.height]
        over = ~((height > low) & (height < high)) | (age > MAX_STEPS) | physics.is_bad(new)
        qpos = [dr.select(over, a, b) for a, b in zip(starts, new.qpos)]
        qvel = [dr.select(over, 0.0, v) for v in new.qvel]
        qacc = [dr.select(over, 0.0, a) for a in new.qacc]
        return physics.State(qpos, qvel, qacc, new.touch, new.dropped, act=new.act), dr.select(over, 0.0, age + 1.0)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            action = self.actions[self.count % len(self.actions)]
            with arrays.no_garbage_collection():
                self.state, self.age = self.advance(self.state, self.age, self.starts, action)
            self.count += 1
        dr.eval(self.state.qpos)
        dr.sync_thread()


class MuJoCo:
    """MuJoCo's threaded batch engine, with the same resets."""

    def __init__(self, robot: Robot, worlds: int, threads: int) -> None:
        m = read_model(robot)
        self.robot, self.worlds = robot, worlds
        self.batch = mujoco.batch.Batch(m, worlds, nthread=threads)
        self.qpos, self.ctrl = self.batch.bind("qpos"), self.batch.bind("ctrl")
        self.actions = np.ascontiguousarray(action_pool(m, worlds).transpose(0, 2, 1))
        self.starts = start_pose(m, robot) + NOISE * np.random.default_rng(1).uniform(-1, 1, (worlds, m.nq))
        self.qpos[:] = self.starts
        self.age = np.random.default_rng(2).uniform(0, MAX_STEPS, worlds)
        self.count = 0

    def run(self, steps: int) -> None:
        low, high = self.robot.healthy
        for _ in range(steps):
            self.ctrl[:] = self.actions[self.count % len(self.actions)]
            self.batch.step(nstep=self.robot.frame_skip)
            self.count += 1
            self.age += 1
            height = self.qpos[:, self.robot.height]
            over = np.nonzero(~((height > low) & (height < high)) | (self.age > MAX_STEPS))[0]
            if len(over):
                self.batch.reset(ids=over, stage=mujoco.mjtStage.mjSTAGE_NONE.value)
                self.qpos[over] = self.starts[over]
                self.age[over] = 0


def rate(engine: Slipstream | MuJoCo, seconds: float) -> float:
    """Env steps per second."""
    engine.run(1)
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        engine.run(2)
        steps += 2
    return steps * engine.worlds / (time.perf_counter() - start)


def warm_up(engine: Slipstream | MuJoCo, steps: int = 60) -> None:
    engine.run(steps)


def compare(name: str, robot: Robot, threads: int, worlds: int, rounds: int, seconds: float) -> dict:
    arrays.set_threads(threads)
    start = time.perf_counter()
    ours = Slipstream(robot, worlds)
    ours.run(1)
    compile_time = time.perf_counter() - start
    theirs = MuJoCo(robot, 1024, threads)
    warm_up(ours)
    warm_up(theirs)
    best = [0.0, 0.0]
    for _ in range(rounds):
        for k, engine in enumerate((ours, theirs)):
            best[k] = max(best[k], rate(engine, seconds))
    return {
        "robot": name,
        "threads": threads,
        "worlds": worlds,
        "slipstream": best[0],
        "mujoco": best[1],
        "ratio": best[0] / best[1],
        "recordings": ours.advance.n_recordings,
        "first_step_s": compile_time,
    }


def print_table(results: Sequence[dict]) -> None:
    print("env steps per second")
    print(f"{'robot':24}{'threads':>8}{'slipstream':>14}{'mujoco.batch':>14}{'ratio':>8}{'first step':>12}")
    for r in results:
        print(
            f"{r['robot']:24}{r['threads']:8d}{r['slipstream']:14,.0f}{r['mujoco']:14,.0f}{r['ratio']:8.1f}"
            f"{r['first_step_s']:10.1f} s"
        )


def curve(robot: Robot, threads: int, seconds: float, figure: Path) -> list[dict]:
    """Env steps/s by number of worlds, and its plot."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    arrays.set_threads(threads)
    points = []
    for worlds in [16 * 2**k for k in range(12)]:
        engine = Slipstream(robot, worlds)
        warm_up(engine, 30)
        points.append({"worlds": worlds, "steps_per_s": max(rate(engine, seconds) for _ in range(3))})
        print(f"{worlds:8d} worlds: {points[-1]['steps_per_s']:12,.0f} env steps/s")
    worlds, steps = zip(*((p["worlds"], p["steps_per_s"]) for p in points))
    fig, ax = plt.subplots(figsize=(6, 4))
    ax.loglog(worlds, steps, "o-", base=2)
    ax.set_xlabel("worlds")
    ax.set_ylabel("humanoid env steps per second")
    ax.set_title(f"{threads} threads")
    ax.grid(alpha=0.3)
    fig.tight_layout()
    fig.savefig(figure, dpi=150)
    print(f"wrote {figure}")
    return points


PEER_SCRIPT = """
import json, sys, time
import jax, jax.numpy as jp
name, worlds = sys.argv[1], int(sys.argv[2])
if name == "brax":
    from brax import envs
    env = envs.get_environment("humanoid", backend="spring" if len(sys.argv) > 3 else "generalized")
    reset, step, size, per_call = env.reset, env.step, env.action_size, 1
    get = lambda s: s.pipeline_state.q
else:
    import mujoco
    from mujoco import mjx
    m = mujoco.MjModel.from_xml_path(sys.argv[3])
    m.opt.integrator, m.opt.solver, m.opt.iterations, m.opt.ls_iterations = 0, 2, 4, 6
    for g in range(m.ngeom):
        fixed = m.geom_bodyid[g] == 0
        m.geom_contype[g], m.geom_conaffinity[g] = (0, 1) if fixed else (1, 0)
    mx = mjx.put_model(m)
    size = m.nu
    reset = lambda key: mjx.make_data(mx).replace(qpos=mx.qpos0 + 0.01 * jax.random.normal(key, (m.nq,)))
    def step(d, a):
        d = d.replace(ctrl=a)
        return jax.lax.fori_loop(0, 5, lambda _, d: mjx.step(mx, d), d)
    get = lambda s: s.qpos
keys = jax.random.split(jax.random.PRNGKey(0), worlds)
start = time.perf_counter()
s = jax.jit(jax.vmap(reset))(keys)
step = jax.jit(jax.vmap(step))
a = jax.random.uniform(keys[0], (worlds, size), minval=-0.4, maxval=0.4)
s = step(s, a); jax.block_until_ready(get(s))
compiled = time.perf_counter() - start
start, n = time.perf_counter(), 0
while time.perf_counter() - start < 10:
    s = step(s, a); jax.block_until_ready(get(s)); n += 1
print(json.dumps({"steps_per_s": worlds * n / (time.perf_counter() - start), "first_step_s": compiled}))
"""


def peers(worlds: int, timeout: float) -> list[dict]:
    try:
        python = peer_python("brax", "mujoco-mjx")
    except subprocess.CalledProcessError:
        print("Brax and MJX could not be installed here, so they are left out.")
        return []
    results = []
    for label, arguments in (
        ("brax (generalized)", ["brax", str(worlds)]),
        ("brax (spring)", ["brax", str(worlds), "spring"]),
        ("mjx", ["mjx", str(worlds), str(ASSETS / "humanoid.xml")]),
    ):
        environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
        try:
            done = subprocess.run(
                [str(python), "-c", PEER_SCRIPT, *arguments],
                capture_output=True,
                text=True,
                timeout=timeout,
                env=environment,
            )
        except subprocess.TimeoutExpired:
            print(f"{label:24} did not get to its first steps in {timeout:.0f} s")
            continue
        if done.returncode:
            print(f"{label:24} failed: {done.stderr.strip().splitlines()[-1:]}")
            continue
        result = {"peer": label, **json.loads(done.stdout.splitlines()[-1])}
        print(f"{label:24}{result['steps_per_s']:14,.0f} env steps/s, first {result['first_step_s']:.0f} s")
        results.append(result)
    return results


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="*", default=list(ROBOTS), help="which robots")
    parser.add_argument("--models", nargs="*", default=[], metavar="NAME=FILE", help="these, instead of the robots")
    parser.add_argument("--leave-out-pairs", action="store_true", help="load them without pairs that are not simulated")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, os.cpu_count() or 1])
    parser.add_argument("--worlds", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="per engine and round")
    parser.add_argument("--curve", action="store_true", help="cost by number of worlds")
    parser.add_argument("--peers", action="store_true", help="Brax and MJX too")
    parser.add_argument("--peer-timeout", type=float, default=300.0)
    parser.add_argument("--json", type=Path, help="write the results there")
    options = parser.parse_args(arguments)
    robots = {name: ROBOTS[name] for name in options.robots} if not options.models else {}
    for model in options.models:
        name, _, file = model.partition("=")
        robots[name] = legged(str(Path(file).expanduser().resolve()), options.leave_out_pairs)
    results: dict[str, list] = {"table": []}
    for name, robot in robots.items():
        for threads in options.threads:
            row = compare(name, robot, threads, options.worlds, options.rounds, options.seconds)
            results["table"].append(row)
            print_table([row])
    print()
    print_table(results["table"])
    if options.curve:
        figure = ROOT.parent / "docs" / "figures" / "physics-worlds.png"
        results["curve"] = curve(ROBOTS["humanoid"], max(options.threads), options.seconds, figure)
    if options.peers:
        results["peers"] = peers(min(options.worlds, 1024), options.peer_timeout)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    sys.exit(main())
