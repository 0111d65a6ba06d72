"""Slipstream as others get it: built, and installed in an environment of its own."""

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


def without_our_source() -> dict[str, str]:
    """The environment of this process, in which no path leads to the source."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(command: list[str | Path], folder: Path, **variables: str) -> str:
    """What a command that must succeed has printed."""
    environment = without_our_source() | variables
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def build(folder: Path) -> tuple[Path, Path]:
    """The wheel and the source distribution."""
    run([sys.executable, "-m", "hatchling", "build", "-d", folder], ROOT)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


@dataclass(frozen=True)
class Installed:
    """A virtual environment that begins empty.

    Attributes:
        folder: what is made there is put here; the environment itself is `env` within it.
    """

    folder: Path

    @classmethod
    def empty(cls, folder: Path) -> "Installed":
        venv.create(folder / "env", with_pip=False)
        return cls(folder)

    @property
    def python(self) -> Path:
        return self.folder / "env" / "bin" / "python"

    @property
    def command(self) -> Path:
        return self.python.with_name("slipstream")

    def install(self, *what: str | Path) -> None:
        """Packages, and options of pip."""
        run(
            [sys.executable, "-m", "pip", "--python", self.python, "install", "--quiet", "--no-compile", *what],
            self.folder,
        )

    def slipstream(self, *arguments: str, **variables: str) -> str:
        return run([self.command, *arguments], self.folder, **variables)

    def execute(self, program: str) -> str:
        return run([self.python, "-c", program], self.folder)

    def check(self) -> None:
        """It is the one that was installed, and it finds its way around."""
        where = self.execute("import slipstream; print(slipstream.__file__)").strip()
        assert str(ROOT) not in where and str(self.folder / "env") in where
        assert "train" in self.slipstream("--help")
        assert "llvm" in self.slipstream("doctor").lower()
