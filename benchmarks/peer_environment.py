"""A virtual environment for the systems that benchmarks compare with, apart from Slipstream's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv-peers"
TORCH = "torch==2.13.0"
"""A version with a plain CPU build."""


def peer_python(*packages: str) -> Path:
    """A Python that has the packages, installed on first use."""
    python = FOLDER / "bin" / "python"
    if not python.exists():
        print(f"Creating {FOLDER.name} for the peers", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if any(p.startswith("stable-baselines3") for p in packages):
        # First and alone: a package that asks for any torch would bring gigabytes of CUDA libraries.
        subprocess.run([*pip, TORCH], check=True)
    subprocess.run([*pip, *packages], check=True)
    return python
