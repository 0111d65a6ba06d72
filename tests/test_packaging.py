"""What is shipped: it builds, holds everything, and works in an environment where nothing else of ours is."""

import json
import os
import site
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TRAIN = [
    "train",
    "cartpole",
    "--steps",
    "512",
    "--worlds",
    "8",
    "--rollout",
    "8",
    "--run",
    "short",
    "--json",
    "--quiet",
]


def without_our_source() -> dict[str, str]:
    """The environment of this process, in which no path leads to the source."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(command: list[str | Path], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=without_our_source())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "hatchling", "build", "-d", folder], ROOT)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def test_the_wheel_has_every_module_and_nothing_else(built):
    shipped = {name for name in zipfile.ZipFile(built[0]).namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    files = [f for f in source.rglob("*") if f.is_file() and "__pycache__" not in f.parts]
    assert shipped == {str(f.relative_to(source)) for f in files}
    assert "slipstream/py.typed" in shipped and "slipstream/runs/directory.py" in shipped


def test_the_source_distribution_has_what_builds_tests_and_explains_it(built):
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "Makefile", "mkdocs.yml", "docs/index.md", "tests/test_packaging.py", "LICENSE"} <= names
    assert not [name for name in names if name.startswith((".venv", "runs/", "site/"))]


def environment(folder: Path) -> Path:
    """An empty virtual environment; its Python."""
    venv.create(folder, with_pip=False)
    return folder / "bin" / "python"


def check_install(python: Path, folder: Path, *, train: bool) -> None:
    """Slipstream as installed there finds its way around, and trains."""
    where = run([python, "-c", "import slipstream; print(slipstream.__file__)"], folder).strip()
    assert str(ROOT) not in where and str(python.parents[1]) in where
    command = python.with_name("slipstream")
    assert "train" in run([command, "--help"], folder)
    assert "llvm" in run([command, "doctor"], folder).lower()
    if not train:
        return
    result = json.loads(run([command, *TRAIN], folder))
    assert result["finished"] and result["step"] == 512
    run([command, "export", "short", "--numpy"], folder)
    assert (folder / "short-policy" / "policy.py").exists()


def test_the_wheel_works_beside_the_packages_it_needs(built, tmp_path):
    python = environment(tmp_path / "env")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
    run([*pip, built[0]], tmp_path)
    (packages,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    # Our own dependencies as they are installed here; what an editable install adds is not looked at.
    (packages / "shared.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    check_install(python, tmp_path, train=False)


@pytest.mark.slow
@pytest.mark.parametrize("extra", ["", "[gymnasium]", "[pettingzoo]", "[export]"])
def test_it_installs_into_an_empty_environment(built, tmp_path, extra):
    python = environment(tmp_path / "env")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    run([*pip, f"slipstream-rl{extra} @ file://{built[0]}"], tmp_path)
    check_install(python, tmp_path, train=True)
    if extra == "[gymnasium]":
        code = (
            "import gymnasium, slipstream.gymnasium; gymnasium.make_vec('slipstream/CartPole-v0', num_envs=2).reset()"
        )
        run([python, "-c", code], tmp_path)
    if extra == "[export]":
        run([python.with_name("slipstream"), "export", "short", "--onnx"], tmp_path)
