"""requirements.lock is what `make` installs: exact, complete, from nowhere in particular."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LINES = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")]
LOCKED = {canonicalize_name(Requirement(line).name): Requirement(line) for line in LINES}


NOT_INSTALLED = ("cuda", "wandb", "mlflow")
"""Extras that `make` leaves out."""


def declared() -> list[Requirement]:
    """All direct dependencies that `make` installs."""
    wanted = {n: texts for n, texts in PROJECT["optional-dependencies"].items() if n not in NOT_INSTALLED}
    extras = [text for texts in wanted.values() for text in texts]
    found = [Requirement(text) for text in [*PROJECT["dependencies"], *extras]]
    return [r for r in found if r.name != PROJECT["name"]]


@pytest.mark.parametrize("requirement", declared(), ids=str)
def test_every_dependency_is_locked_within_its_range(requirement):
    (pin,) = LOCKED[canonicalize_name(requirement.name)].specifier
    assert requirement.specifier.contains(pin.version), "run scripts/lock.sh"


@pytest.mark.parametrize("line", LINES)
def test_versions_are_exact_and_come_from_anywhere(line):
    assert re.fullmatch(r"[a-z0-9.-]+==[\w.]+( ; [\w. <>!='\"()]+)?", line)


def test_there_is_one_library_that_learns():
    assert not {"torch", "tensorflow"} & set(LOCKED) and "jax" in LOCKED


@pytest.mark.parametrize("requirement", [Requirement(text) for text in PROJECT["dependencies"]], ids=str)
def test_every_dependency_of_slipstream_has_a_lower_bound(requirement):
    assert any(s.operator == ">=" for s in requirement.specifier)
