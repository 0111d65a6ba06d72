"""Small runs to watch, a page that shows them, and a browser."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slipstream.cli.main import OK, main

sys.path.insert(0, str(Path(__file__).parent))

from browser import PATIENCE, chromium

SMALL = ("--worlds", "8", "--rollout", "8", "--steps", "192", "--quiet", "--set", "hidden=[8]", "--evaluate-every", "1")


def train_small(world: str, path: Path, *options: str) -> Path:
    assert main(["train", world, "--run", str(path), *SMALL, *options]) == OK
    return path


@pytest.fixture(scope="session")
def robot_run(tmp_path_factory) -> Path:
    """A hopper that has learned next to nothing, and falls again and again."""
    return train_small("hopper", tmp_path_factory.mktemp("robots") / "hopper")


@pytest.fixture(scope="session")
def drawn_run(tmp_path_factory) -> Path:
    return train_small("cartpole", tmp_path_factory.mktemp("drawn") / "cartpole")


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@contextmanager
def watching(*arguments: str) -> Iterator[str]:
    """Inside, `slipstream watch` runs; its address."""
    command = [sys.executable, "-m", "slipstream.cli.main", "watch", "--port", "0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        assert found is not None
        try:
            yield found.group()
        finally:
            process.terminate()
            assert process.wait(PATIENCE) == 0
