"""`slipstream doctor`: what this machine offers."""

from __future__ import annotations

import dataclasses
import json as json_module
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any

OK = "ok"


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
    """Everything that decides how fast worlds and networks run here. What does not work is a finding, not an error."""
    import drjit as dr

    from slipstream import __version__, arrays, llvm, target

    backends = {name: _outcome(lambda name=name: arrays.resolve_backend(name)) for name in ("llvm", "cuda", "scalar")}
    jax = _outcome(arrays.jax_devices)
    search, compiles = llvm.llvm_for_drjit(), backends["llvm"] == OK
    default = next((name for name in ("cuda", "llvm") if backends[name] == OK), None)
    packages = ("drjit", "jax", "equinox", "optax", "numpy", "mujoco", "gymnasium")
    return {
        "ready": default is not None and jax == OK,
        "slipstream": __version__,
        "python": platform.python_version(),
        "backends": backends,
        "default_backend": default,
        "llvm": {"path": search.library.path, "version": arrays.llvm_version()}
        if search.library and compiles
        else None,
        "llvm_passed_over": list(search.passed_over),
        "vector_width": target.vector_width() if compiles else None,
        "target": dataclasses.asdict(target.choose_target()) if compiles else None,
        "threads": dr.thread_count() if compiles else os.cpu_count(),
        "jax": jax,
        "jax_devices": [str(device) for device in arrays.jax_devices()] if jax == OK else [],
        "packages": {name: _version(name) for name in packages},
    }


def _outcome(attempt: Callable[[], object]) -> str:
    """`ok`, or why the attempt failed."""
    from slipstream.arrays import BackendError

    try:
        attempt()
    except BackendError as error:
        return str(error)
    return OK


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _show(findings: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 2))
    table.add_row("slipstream", f"{findings['slipstream']} on Python {findings['python']}")
    for name, state in findings["backends"].items():
        default = " (default)" if name == findings["default_backend"] else ""
        table.add_row(f"backend {name}", f"[green]ok[/green]{default}" if state == OK else _bad(state))
    llvm = findings["llvm"]
    table.add_row("LLVM", f"{llvm['version']} at {llvm['path']}" if llvm else "[yellow]not loaded[/yellow]")
    for passed_over in findings["llvm_passed_over"]:
        table.add_row("not used", f"[dim]{escape(passed_over)}[/dim]")
    if findings["vector_width"]:
        table.add_row("lanes per instruction", str(findings["vector_width"]))
        table.add_row("gathers", _gathers(findings["target"]))
    table.add_row("threads", str(findings["threads"]))
    table.add_row("JAX devices", ", ".join(findings["jax_devices"]) or _bad(findings["jax"]))
    for name, version in findings["packages"].items():
        table.add_row(name, version or "[dim]not installed[/dim]")
    Console().print(table)


def _gathers(target: dict[str, Any]) -> str:
    """How a vector is loaded from many places, and why so."""
    took = ", ".join(f"{name} {nanoseconds:.1f} ns" for name, nanoseconds in target["nanoseconds"].items())
    return f"{target['gather']} ({target['chosen_by']}{f': {took} a vector' if took else ''})"


def _bad(reason: str) -> str:
    from rich.markup import escape

    return f"[yellow]{escape(reason)}[/yellow]"
