"""How many of the models that people have can be simulated: folders of MJCF in, a table by source out.

    python benchmarks/models.py menagerie=~/mujoco_menagerie dm_control=~/wheels/dm_control
    python benchmarks/models.py playground=~/wheels/playground --assets ~/mujoco_menagerie --compare 100

Every XML file that MuJoCo compiles and in which something moves is a model. It loads if `physics.load` takes it, or at
least with `leave_out_pairs=True`. It agrees if one step from states MuJoCo visits is off by at most 1e-3, in 99 % of
the states (those with contacts that are left out do not count). For that (`--compare`) a kernel is compiled for every
model, in a process of its own. Wheels of dm_control, Brax, Gymnasium-Robotics and Playground carry their models:
`pip download --no-deps`, then unzip.
"""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import argparse
import json
import re
import struct
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

TOLERANCE = 1e-3
SIDE = 0.01
"""Metres: of the cubes that stand in for mesh files that are nowhere."""


@dataclass
class Found:
    """What became of one model."""

    file: str
    problems: list[str] = field(default_factory=list)  # why it does not load; empty if it does
    loads_with_less: bool = True  # whether it loads at least with the pairs left out whose collision is not simulated
    error: float | None = None  # of one step, where it was compared
    failure: str = ""  # why it could not be compared
    stand_ins: int = 0  # mesh files that were nowhere, and are cubes


@dataclass(frozen=True)
class Assets:
    """Mesh, texture and height field files, by name."""

    by_name: dict[str, list[Path]]

    def nearest(self, wanted: Path) -> Path | None:
        """The file of that name whose folders are most like those wanted."""
        parts = set(wanted.parts)
        found = self.by_name.get(wanted.name, [])
        return max(found, key=lambda path: len(parts & set(path.parts)), default=None)


def find_assets(folders: list[Path]) -> Assets:
    by_name: dict[str, list[Path]] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix.lower() in (".stl", ".obj", ".msh", ".png", ".ply"):
                by_name.setdefault(path.name, []).append(path)
    return Assets(by_name)


def trees(path: Path) -> Iterator[ElementTree.Element]:
    """A model's XML and all that it includes."""
    try:
        tree = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, OSError):
        return
    yield tree
    for include in tree.iter("include"):
        yield from trees(path.parent / include.get("file", ""))


def cube(suffix: str) -> bytes:
    """A mesh file."""
    corners = [(x, y, z) for x in (0.0, SIDE) for y in (0.0, SIDE) for z in (0.0, SIDE)]
    squares = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
    faces = [face for a, b, c, d in squares for face in ((a, b, c), (a, c, d))]
    if suffix.lower() == ".stl":
        triangles = (struct.pack("<12fH", 0, 0, 0, *(x for k in face for x in corners[k]), 0) for face in faces)
        return bytes(80) + struct.pack("<I", len(faces)) + b"".join(triangles)
    lines = [f"v {x} {y} {z}" for x, y, z in corners] + [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in faces]
    return "\n".join(lines).encode()


def missing_files(path: Path, assets: Assets) -> tuple[dict[str, bytes], int]:
    """By name, the files a model asks for that are not where it says; and how many of them are cubes."""
    parts = list(trees(path))
    folder = path.parent
    for tree in parts:
        for compiler in tree.iter("compiler"):
            folder = path.parent / compiler.get("assetdir", compiler.get("meshdir", folder.relative_to(path.parent)))
    files: dict[str, bytes] = {}
    stand_ins = 0
    for tree in parts:
        for element in (e for kind in ("mesh", "texture", "hfield", "skin") for e in tree.iter(kind)):
            wanted = folder / element.get("file", "")
            if not element.get("file") or wanted.is_file() or (path.parent / element.get("file", "")).is_file():
                continue
            found = assets.nearest(wanted)
            if found is not None:
                files[wanted.name] = found.read_bytes()
            elif element.tag == "mesh":
                files[wanted.name] = cube(wanted.suffix)
                stand_ins += 1
    return files, stand_ins


def compile_model(path: Path, assets: Assets) -> tuple[object, int]:
    """An MjModel, and how many cubes it has; ValueError if MuJoCo cannot compile the file."""
    import mujoco

    files, stand_ins = missing_files(path, assets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if files:
            return mujoco.MjModel.from_xml_path(str(path), files), stand_ins
        return mujoco.MjModel.from_xml_path(str(path)), 0


def look_at(path: Path, assets: Assets, self_collision: bool) -> Found | None:
    """Load a model; None for a file that is not one."""
    from slipstream import physics

    try:
        m, stand_ins = compile_model(path, assets)
    except ValueError:
        return None
    if getattr(m, "nv", 0) == 0:
        return None
    found = Found(str(path), stand_ins=stand_ins)
    try:
        physics.load(m, self_collision=self_collision)
    except physics.ModelError as error:
        found.problems = str(error).splitlines()[1:] or [str(error)]
        try:
            physics.load(m, self_collision=self_collision, leave_out_pairs=True)
        except physics.ModelError:
            found.loads_with_less = False
    return found


def compare(path: Path, assets: Assets, states: int, self_collision: bool) -> float:
    """How far one step is off, for 99 % of the states."""
    from slipstream import physics
    from slipstream.physics import agreement

    m, _ = compile_model(path, assets)
    model = physics.load(m, self_collision=self_collision, leave_out_pairs=True)
    rows = agreement.compare(m, model, states=states, seed=0).errors  # type: ignore[arg-type]
    return max((row.percentile_99 for row in rows if row.counts), default=0.0)


def compare_apart(path: str, options: argparse.Namespace) -> tuple[float | None, str]:
    """`compare` in a process of its own: a kernel may take too long to compile."""
    command = [sys.executable, __file__, "--one", path, "--compare", str(options.compare)]
    command += [f"--assets={folder}" for folder in options.assets] + ["--floor-only"] * options.floor_only
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.seconds)
    except subprocess.TimeoutExpired:
        return None, f"more than {options.seconds} s"
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or ["?"])[-1][:200]
    return float(done.stdout.split()[-1]), ""


def reason(problem: str) -> str:
    """A problem without the names of elements and their number."""
    problem = re.sub(r" name='[^']*'", "", problem.strip())
    problem = re.sub(r"There are [\d,]+:.*", "", problem)
    return re.sub(r"\d[\d,.]*", "N", problem)[:110]


def print_reasons(models: list[Found]) -> None:
    """Which reasons stand in the way of most models, and of how many they are the only one."""
    reasons = [{reason(problem) for problem in found.problems} for found in models if found.problems]
    total, alone = Counter(r for rs in reasons for r in rs), Counter(r for rs in reasons if len(rs) == 1 for r in rs)
    print(f"\n{'models':>7} {'alone':>6}  reason")
    for name, count in total.most_common():
        print(f"{count:7d} {alone[name]:6d}  {name}")


def print_table(sources: dict[str, list[Found]], compared: bool) -> None:
    names = ["source", "models", "load", "load with pairs left out", *(["compared", "agree"] if compared else [])]
    print("| " + " | ".join(names) + " |")
    print("|---" * len(names) + "|")
    everything = {**sources, "all": [found for models in sources.values() for found in models]}
    for source, models in everything.items():
        numbers = [len(models), sum(not found.problems for found in models)]
        numbers.append(sum(found.loads_with_less for found in models))
        if compared:
            errors = [found.error for found in models if found.error is not None]
            numbers += [len(errors), sum(error <= TOLERANCE for error in errors)]
        print(f"| {source} | " + " | ".join(map(str, numbers)) + " |")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", metavar="NAME=FOLDER")
    parser.add_argument("--assets", action="append", default=[], help="a folder with mesh files that others lack")
    parser.add_argument("--compare", type=int, default=0, metavar="STATES", help="also step, and compare with MuJoCo")
    parser.add_argument("--seconds", type=int, default=120, help="for the comparison of one model, compiling included")
    parser.add_argument("--floor-only", action="store_true", help="without collisions between moving geoms")
    parser.add_argument("--json", type=Path, help="a file for what became of every model")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    import mujoco

    options = parsed()
    mujoco.set_mju_user_warning(lambda message: None)
    assets = cache(lambda: find_assets([Path(folder).expanduser() for folder in options.assets]))()
    if options.one:
        print(compare(options.one, assets, options.compare, not options.floor_only))
        return
    sources: dict[str, list[Found]] = {}
    for source in options.sources:
        name, _, folder = source.partition("=")
        files = sorted(Path(folder).expanduser().rglob("*.xml"))
        looked = (look_at(path, assets, not options.floor_only) for path in files)
        models = [found for found in looked if found]
        sources[name] = models
        print(f"{name}: {len(files)} files, {len(models)} models", file=sys.stderr, flush=True)
        for found in models if options.compare else []:
            if found.loads_with_less:
                found.error, found.failure = compare_apart(found.file, options)
                print(f"  {found.file}: {found.failure or found.error}", file=sys.stderr, flush=True)
    print_table(sources, bool(options.compare))
    print_reasons([found for models in sources.values() for found in models])
    if options.json:
        rows = {name: [vars(found) for found in models] for name, models in sources.items()}
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
