"""`slipstream check-model robot.xml`: can this robot be simulated here, how exactly, and how fast?"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from slipstream.envs.extras import robots_extra

if TYPE_CHECKING:  # MuJoCo is imported when a model is checked
    from slipstream.physics import Model
    from slipstream.physics.agreement import Agreement, Speed


@dataclass(frozen=True)
class CheckModel:
    """Load an MJCF robot, compare it with MuJoCo's own engine, and measure its speed on this machine.

    The comparison lets MuJoCo run with random controls and repeats single steps from the states it visits:
    the error table is what one step of ours is off. Anything the robot asks for that is not simulated is
    listed. The exit code is 1 where there is such a thing, where more than 1 % of the steps are off by more
    than the tolerance, and where worlds do not stay finite although MuJoCo's do.
    """

    model: Annotated[str, tyro.conf.Positional]
    """Path of an MJCF (or URDF) file."""
    worlds: int = 1024
    """How many copies to time."""
    steps: int = 400
    """How many of MuJoCo's states to compare with."""
    seed: int = 0
    """Seed of the random controls."""
    self_collision: bool = True
    """Whether moving geoms collide with each other."""
    self_contacts: int = 6
    """How many such contacts a world can have at once."""
    leave_out_pairs: bool = False
    """Let geoms pass through each other whose collision is not simulated, instead of refusing the model."""
    tolerance: float = 1e-3
    """How far off a step may be, relative to the largest coordinate or velocity (at least 1)."""
    backend: str = "auto"
    """auto, llvm or cuda."""
    json: bool = False
    """Print one JSON object instead of text."""


def run(options: CheckModel) -> int:
    """Check a model and print what was found. Returns the exit code."""
    if options.worlds < 1 or options.steps < 1 or not options.tolerance > 0:
        raise ValueError("worlds and steps must be at least 1, and the tolerance positive.")
    with robots_extra():
        from slipstream import physics
        from slipstream.physics import agreement
        from slipstream.physics.loading import read_mujoco
    try:
        m = read_mujoco(options.model)
        model = physics.load(
            m,
            self_collision=options.self_collision,
            self_contacts=options.self_contacts,
            leave_out_pairs=options.leave_out_pairs,
        )
    except physics.ModelError as error:
        refused = {"model": options.model, "supported": False, "problems": str(error)}
        print(json.dumps(refused) if options.json else error)
        return 1
    _tell(f"compiling {model.nv} degrees of freedom and {len(model.pairs)} contact pairs, to compare with MuJoCo ...")
    found = agreement.compare(m, model, states=options.steps, seed=options.seed, backend=options.backend)
    _tell(f"timing {options.worlds} worlds ...")
    speed = agreement.measure(model, worlds=options.worlds, seed=options.seed, backend=options.backend)
    failures = verdict(found, speed, options)
    if options.json:
        report = {
            "model": options.model,
            "supported": True,
            "faithful": not failures,
            "failures": failures,
            **summary(model),
            "legs": legs(options.model, model),
            "notes": notes(model),
            "errors": [asdict(row) for row in found.errors],
            "unstable_in_mujoco": found.unstable,
            **asdict(speed),
        }
        print(json.dumps(report, indent=1))
    else:
        _print(model, found, speed, failures, options)
    return 1 if failures else 0


def _tell(what: str) -> None:
    """Large models compile for a while: nobody should wonder what happens."""
    print(what, file=sys.stderr, flush=True)


def verdict(found: Agreement, speed: Speed, options: CheckModel) -> list[str]:
    """What is wrong with a model that can be simulated; nothing, if all is well."""
    allowed = f"(allowed: {options.tolerance:g})"
    failures = [
        f"{row.quantity}: 1 % of {row.states} are off by more than {row.percentile_99:.1e} {allowed}"
        for row in found.errors
        if row.counts and not row.percentile_99 <= options.tolerance
    ]
    if failures and found.crowded:
        failures.append(
            f"{found.crowded} of {options.steps} states had more than {options.self_contacts} self-contacts: "
            "raise --self-contacts"
        )
    if speed.bad_worlds and not found.unstable:
        failures.append(f"{speed.bad_worlds} worlds did not stay finite; MuJoCo's did")
    return failures


def _print(model: Model, found: Agreement, speed: Speed, failures: list[str], options: CheckModel) -> None:
    print(f"{options.model}: {'supported, but not faithful' if failures else 'supported'}")
    for key, value in summary(model).items():
        print(f"  {key:18} {value}")
    if found_legs := legs(options.model, model):
        print(f"  {'legs':18} {found_legs}")
    for note in notes(model):
        print(f"  NOTE: {note}")
    print("\n  one step against MuJoCo, relative to the largest number")
    print(f"  {'':18} {'states':>7} {'median':>10} {'99 %':>10} {'largest':>10}")
    for row in found.errors:
        name = row.quantity if row.counts else f"({row.quantity})"
        numbers = f"{row.median:10.1e} {row.percentile_99:10.1e} {row.largest:10.1e}"
        print(f"  {name:18} {row.states:7d} {numbers}")
    if any(not row.counts for row in found.errors):
        print("  In brackets: MuJoCo has contacts that are of another kind here, or left out, see docs/physics.md.")
    if found.unstable:
        print(f"  MuJoCo itself was unstable {found.unstable} times.")
    print(f"\n  {speed.steps_per_s:,.0f} physics steps/s with {options.worlds} worlds ({speed.backend});", end=" ")
    print(f"first step after {speed.first_step_s:.1f} s, {speed.bad_worlds} bad worlds")
    if speed.dropped > 0:
        print(f"  {speed.dropped:.2g} self-contacts per world and step were left out: raise --self-contacts.")
    for failure in failures:
        print(f"  NOT FAITHFUL: {failure}.")


def legs(path: str, model: Model) -> str | None:
    """What `slipstream train legged` would make of a robot; nothing, if it does not float."""
    from slipstream.envs.legged.anatomy import find_anatomy
    from slipstream.envs.legged.servos import prepare
    from slipstream.physics import ModelError, load

    if not model.joints or model.joints[0].kind != "free":
        return None
    try:
        m, motors = prepare(Path(path), None, None)
        standing = load(m, self_collision=False, leave_out_pairs=True)
        found = find_anatomy(standing).describe(standing)
    except ModelError as error:
        return f"not for `slipstream train legged`: {error}"
    return f"{found}; motors that become servos: {len(motors)} of {model.nu}"


def notes(model: Model) -> list[str]:
    """In what a model is not quite MuJoCo's."""
    return [f"left out: {line}" for line in model.left_out.lines]


def summary(model: Model) -> dict[str, str]:
    """What the model is made of."""
    kinds = Counter(joint.kind for joint in model.joints)
    external = sum(pair.is_external for pair in model.pairs)
    return {
        "coordinates": f"{model.nq} (velocities {model.nv}, controls {model.nu})",
        "joints": ", ".join(f"{count} {kind}" for kind, count in kinds.items()),
        "moving links": f"{len(model.links) - 1} (of {len(model.bodies)} bodies)",
        "contact pairs": f"{external} with what is fixed, {len(model.pairs) - external} between moving links",
        "integrator": f"{model.options.integrator}, {1000 * model.options.timestep:g} ms",
    }
