"""The site builds without a broken link, and what its pages show works."""

import dataclasses
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from slipstream.cli.main import COMMANDS, parse

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
CODE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHELL = re.compile(r"^```\n(.*?)^```$", re.DOTALL | re.MULTILINE)

SLOW = (
    "training.md",
    "getting-started.md",
    "interoperability.md",
    "export.md",
    "multi-agent.md",
    "two_policies.py",
    "export_and_run.py",
)
"""Pages and examples that train."""
ELSEWHERE = ("your-first-world.md", "your-own-robot.md")
"""Pages whose worlds have tests of their own."""

# Runs the blocks of a page one after another, as one program in an empty folder; training runs are cut short.
RUN_PAGE = """
import dataclasses, sys
from slipstream.training import api, several
from slipstream.training.config import FusedConfig

def shortened(config):
    driver = config.driver
    if isinstance(driver, FusedConfig):
        driver = dataclasses.replace(driver, num_worlds=16)
    return dataclasses.replace(config, driver=driver, total_steps=1024, total_seconds=None, stop_at_return=None)

whole, chosen = api.from_anywhere, several.default_config
api.from_anywhere = lambda config: whole(shortened(config))
several.default_config = lambda *a, **k: shortened(chosen(*a, **k))
sys.path.insert(0, ".")
import page
"""


def blocks(page: Path) -> list[str]:
    return CODE.findall(page.read_text())


def test_the_site_builds_and_no_link_is_broken(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    reference = (tmp_path / "site" / "reference" / "index.html").read_text()
    assert "as_gymnasium" in reference and "clip_ratio" in reference


def test_a_broken_link_would_be_noticed(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Here\n\n[there](there.md)\n")
    config = (ROOT / "mkdocs.yml").read_text().partition("nav:\n  - Home")[0].replace("paths: [src]", "paths: []")
    (tmp_path / "mkdocs.yml").write_text(config)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0 and "there.md" in done.stderr


def marked(file: Path) -> object:
    return pytest.param(file, id=file.stem, marks=[pytest.mark.slow] if file.name in SLOW else [])


@pytest.mark.parametrize("page", [marked(p) for p in PAGES if blocks(p) and p.name not in ELSEWHERE])
def test_the_code_of_a_page_runs(page, tmp_path):
    (tmp_path / "page.py").write_text("\n\n".join(blocks(page)))
    if page.name == "physics.md":
        import gymnasium.envs.mujoco as robots

        (tmp_path / "humanoid.xml").write_bytes((Path(robots.__file__).parent / "assets" / "humanoid.xml").read_bytes())
    done = subprocess.run([sys.executable, "-c", RUN_PAGE], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_code_of_the_readme_runs(tmp_path):
    (tmp_path / "page.py").write_text("\n\n".join(blocks(ROOT / "README.md")))
    done = subprocess.run([sys.executable, "-c", RUN_PAGE], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def commands(page: Path) -> list[str]:
    """Of our own, in the blocks of a page that are for a shell."""
    joined = "\n".join(SHELL.findall(page.read_text())).replace("\\\n", " ")
    lines = [re.sub(r"^([A-Z_]+=\S+ )+", "", line.strip()) for line in joined.splitlines()]
    return [line for line in lines if line.startswith("slipstream ")]


def mentioned(page: Path) -> list[str]:
    """Commands that are named in a sentence, whole or in part."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.S | re.M)
    return [" ".join(line.split()) for line in re.findall(r"`(slipstream [a-z][^`]*)`", text)]


def test_commands_that_pages_show_can_be_typed_as_they_are(capsys):
    shown = {line: page.name for page in [*PAGES, ROOT / "README.md"] for line in commands(page)}
    assert len(shown) > 40
    wrong = []
    for line, page in shown.items():
        _, name, *arguments = shlex.split(line, comments=True)
        try:
            parse(name, arguments)
        except SystemExit:
            wrong.append((page, line, capsys.readouterr().err))
    assert wrong == []


def test_commands_that_pages_mention_have_the_options_they_are_given():
    found = [(page.name, line) for page in [*PAGES, ROOT / "README.md"] for line in mentioned(page)]
    assert len(found) > 20
    for page, line in found:
        words = shlex.split(line, comments=True)
        name, flags = words[1], [w.partition("=")[0] for w in words[2:] if w.startswith("--")]
        assert name in COMMANDS, f"{page}: {line}"
        module, _, record = COMMANDS[name][0].partition(":")
        fields = dataclasses.fields(getattr(importlib.import_module(f"slipstream.cli.{module}"), record))
        known = {"--" + f.name.rstrip("_").replace("_", "-") for f in fields} | {"--help"}
        assert set(flags) <= known, f"{page}: {line}"


def test_every_page_of_the_menu_is_there():
    named = re.findall(r"(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert len(named) > 15 and all((ROOT / "docs" / name).stat().st_size > 0 for name in named)


EXAMPLES = [
    p for p in sorted((ROOT / "examples").glob("*.py")) if "stable_baselines3" not in p.name
]  # see test_extras.py
SHORT = {"export_and_run": ["--steps", "2048"], "your_own_loop": ["--steps", "20"], "two_policies": ["--steps", "2048"]}
"""How the examples are run in a moment."""


@pytest.mark.parametrize("example", [marked(p) for p in EXAMPLES])
def test_an_example_runs(example, tmp_path):
    command = [sys.executable, str(example), *SHORT.get(example.stem, [])]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ})
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.slow
def test_the_notebook_runs_from_its_first_cell_to_its_last(tmp_path):
    cells = json.loads((ROOT / "examples" / "first_hour.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 5
    program = "\n\n".join(code).replace("STEPS = 100_000", "STEPS = 2_048")
    # From standard input, as in a notebook, classes are in no file.
    command = [sys.executable, "-"]
    environment = {**os.environ, "MPLBACKEND": "agg"}
    done = subprocess.run(command, input=program, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "curve.png").exists() and (tmp_path / "runs" / "notebook-policy" / "policy.c").exists()


def test_the_citation_is_of_this_version():
    import yaml

    import slipstream

    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0" and citation["version"] == slipstream.__version__
    assert citation["title"] and citation["authors"] and citation["license"] == "Apache-2.0"


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md", "README.md", "examples/README.md"])
def test_files_that_a_page_names_are_there(name):
    text = (ROOT / name).read_text()
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    paths = re.findall(r"`((?:benchmarks|docs|tests|examples|scripts)/[\w./]+\.(?:py|md|sh))`", text)
    missing = [path for path in [*links, *paths] if path and not (ROOT / name).parent.joinpath(path).exists()]
    assert [path for path in missing if not (ROOT / path).exists()] == []
