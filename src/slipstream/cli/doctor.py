"""`slipstream doctor`: what this machine offers."""

from __future__ import annotations

import json as json_module
import os
import platform
from dataclasses import dataclass
from importlib import metadata
from typing import Any


@dataclass(frozen=True)
class Doctor:
    """Show which backends, devices and libraries were found, and what to install if something is missing.

    Exits with 0 if worlds can be compiled here, else with 1.
    """

    json: bool = False
    """Print JSON instead of a table."""


def run(options: Doctor) -> int:
    findings = examine()
    if options.json:
        print(json_module.dumps(findings, indent=2))
    else:
        _show(findings)
    return 0 if findings["ready"] else 1


def examine() -> dict[str, Any]:
    """Everything that decides how fast worlds and networks run here."""
    import drjit as dr
    import jax

    from slipstream import __version__, arrays

    llvm = arrays.find_llvm()
    backends: dict[str, str] = {}
    for name in ("llvm", "cuda"):
        try:
            arrays.resolve_backend(name)
            backends[name] = "ok"
        except arrays.BackendError as error:
            backends[name] = str(error)
    backends["scalar"] = "ok"
    ready = "ok" in (backends["llvm"], backends["cuda"])
    packages = ("drjit", "jax", "equinox", "optax", "numpy", "mujoco", "gymnasium")
    return {
        "ready": ready,
        "slipstream": __version__,
        "python": platform.python_version(),
        "backends": backends,
        "default_backend": arrays.resolve_backend("auto") if ready else None,
        "llvm": None if llvm is None else {"path": llvm.path, "version": llvm.major},
        "vector_width": arrays.vector_width() if backends["llvm"] == "ok" else None,
        "threads": dr.thread_count() if backends["llvm"] == "ok" else os.cpu_count(),
        "jax_devices": [str(d) for d in jax.devices()],
        "packages": {name: _version(name) for name in packages},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _show(findings: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 2))
    table.add_row("slipstream", f"{findings['slipstream']} on Python {findings['python']}")
    for name, state in findings["backends"].items():
        default = " (default)" if name == findings["default_backend"] else ""
        table.add_row(
            f"backend {name}", f"[green]ok[/green]{default}" if state == "ok" else f"[yellow]{state}[/yellow]"
        )
    llvm = findings["llvm"]
    table.add_row("LLVM", f"{llvm['version']} at {llvm['path']}" if llvm else "[yellow]not found[/yellow]")
    if findings["vector_width"]:
        table.add_row("lanes per instruction", str(findings["vector_width"]))
    table.add_row("threads", str(findings["threads"]))
    table.add_row("JAX devices", ", ".join(findings["jax_devices"]))
    for name, version in findings["packages"].items():
        table.add_row(name, version or "[dim]not installed[/dim]")
    Console().print(table)
