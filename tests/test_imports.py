"""Who may import whom, and what is not imported before it is needed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINTER = Path(sys.executable).with_name("lint-imports")

HEAVY = (
    *("PIL", "gymnasium", "imageio", "matplotlib", "mlflow", "mujoco", "onnx", "pettingzoo", "pynvml", "ray"),
    *("tensorboard", "tensorflow", "torch", "viser", "wandb"),
)
ROBOTS = (
    "slipstream.physics",
    "slipstream.envs.locomotion.",
    "slipstream.envs.legged",
    "slipstream.envs.dm_control",
    "slipstream.training.in_mujoco",
)
"""Modules that are imported for the sake of MuJoCo, and only when a robot is asked for."""
REGISTERS, ADAPTERS = "slipstream.gymnasium", ("slipstream.envs.adapters.",)
"""Modules that are imported for the sake of another library, and only when its clothes are asked for."""

# Imports the given modules one after another, and prints which one of the heavy packages each brought in first.
IMPORT_EACH = """
import importlib, sys
heavy = sys.argv[1].split(",")
for name in sys.argv[2:]:
    before = set(sys.modules)
    importlib.import_module(name)
    for package in heavy:
        if package in sys.modules and package not in before:
            print(name, "imports", package)
"""


def brought_in(modules: list[str], packages: tuple[str, ...]) -> list[str]:
    """Which of the packages come with which of the modules, in a fresh process."""
    command = [sys.executable, "-c", IMPORT_EACH, ",".join(packages), *modules]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def all_modules() -> list[str]:
    files = sorted((ROOT / "src").rglob("*.py"))
    names = [".".join(file.relative_to(ROOT / "src").with_suffix("").parts) for file in files]
    return [name.removesuffix(".__init__") for name in names]


def test_heavy_extras_are_imported_where_they_are_used():
    modules = [name for name in all_modules() if not name.startswith((*ROBOTS, *ADAPTERS)) and name != REGISTERS]
    assert len(modules) > 50
    assert brought_in(modules, HEAVY) == []


def test_a_heavy_import_would_be_noticed():
    assert brought_in(["slipstream.envs.classic.cartpole", "slipstream.physics.model"], HEAVY) == [
        "slipstream.physics.model imports mujoco"
    ]


def test_the_package_and_its_command_wait_for_nothing():
    assert brought_in(["slipstream", "slipstream.cli.main"], (*HEAVY, "drjit", "jax", "numpy", "rich", "tyro")) == []


def broken_contracts(tmp_path: Path, module: str = "", line: str = "") -> str:
    """What import-linter says of Slipstream with one more import in it."""
    shutil.copytree(ROOT / "src" / "slipstream", tmp_path / "slipstream")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    if module:
        file = tmp_path / module
        file.parent.mkdir(exist_ok=True)
        with file.open("a") as f:
            f.write(f"\n\ndef later():\n    {line}\n")
    done = subprocess.run([LINTER, "--no-cache", "--no-logo"], cwd=tmp_path, capture_output=True, text=True)
    return "\n".join(x for x in done.stdout.splitlines() if " BROKEN" in x or x.startswith("Contracts:"))


def test_slipstream_keeps_its_own_contracts(tmp_path):
    assert "0 broken" in broken_contracts(tmp_path)


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("slipstream/envs/env.py", "import slipstream.training.config", "flow one way"),
        ("slipstream/envs/env.py", "import slipstream.runs.metrics", "siblings leave one another alone"),
        ("slipstream/runs/metrics.py", "import slipstream.envs.worlds", "siblings leave one another alone"),
        ("slipstream/nets/mlp.py", "import slipstream.physics.spatial", "siblings leave one another alone"),
        ("slipstream/random.py", "import slipstream.spaces", "siblings leave one another alone"),
        ("slipstream/novelty/__init__.py", "import slipstream.cli.main", "flow one way"),
        ("slipstream/physics/step.py", "import slipstream.envs.env", "Physics knows arrays"),
        ("slipstream/physics/step.py", "import slipstream.random", "Physics knows arrays"),
        ("slipstream/algos/ppo.py", "import slipstream.envs.worlds", "What learns knows no worlds"),
        ("slipstream/nets/mlp.py", "import slipstream.envs.env", "What learns knows no worlds"),
        ("slipstream/algos/ppo.py", "import slipstream.arrays", "What learns knows no worlds"),
        ("slipstream/envs/registry.py", "import gymnasium", "Only robots, films and adapters"),
        ("slipstream/runs/curves.py", "from PIL import Image", "Only robots, films and adapters"),
        ("slipstream/training/fused.py", "import torch", "it is JAX"),
        ("slipstream/training/fused.py", "import ray", "Only the tournament knows Ray"),
        ("slipstream/tournament/pod.py", "import ray", "one module knows Ray"),
    ],
)
def test_a_wrong_import_breaks_a_contract(tmp_path, module, line, contract):
    broken = [x for x in broken_contracts(tmp_path, module, line).splitlines() if " BROKEN" in x]
    assert any(contract in x for x in broken), broken
