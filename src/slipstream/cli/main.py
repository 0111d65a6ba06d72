"""Reads the command line and hands over to a subcommand.

A subcommand is imported only when it is called, so that `slipstream --help` answers at once.
"""

from __future__ import annotations

import importlib
import os
import select
import sys
from typing import Any

COMMANDS = {
    "doctor": ("doctor:Doctor", "what this machine offers, and what to install if something is missing"),
    "envs": ("envs:Envs", "the worlds that come with Slipstream"),
    "train": ("train:Train", "train policies in a world"),
    "sweep": ("sweep:Sweep", "train with combinations of settings, and say which is best"),
    "tournament": ("tournament:Tournament", "let many agents train at once, and new ones start from the leaders"),
    "eval": ("evaluate:Eval", "how good the policies of a run are"),
    "plot": ("plot:Plot", "learning curves of one or more runs"),
    "export": ("export:Export", "the policies of a run for elsewhere: a folder to share, ONNX, NumPy, C"),
    "video": ("video:Video", "a film of an episode, by the policies of a run"),
    "watch": ("watch:Watch", "a page in which the newest policy of a run plays live, with its curves"),
    "backtest": ("backtest:Backtest", "how the policies of runs trade in days that nothing before has seen"),
    "check": ("check:Check", "whether a world keeps its promises"),
    "check-model": ("check_model:CheckModel", "whether a MuJoCo model is simulated faithfully, and how fast"),
    "bench": ("bench:Bench", "how fast a world runs on this machine"),
}

OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
"""Exit codes: success; the command ran and its answer is no; what was asked for makes no sense; Ctrl-C."""


def usage() -> str:
    lines = [f"  {name:<14}{summary}" for name, (_, summary) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: slipstream COMMAND [OPTIONS]",
            "",
            "Reinforcement learning in thousands of worlds at once.",
            "",
            "commands:",
            *lines,
            "",
            "slipstream COMMAND --help explains a command. A good start: slipstream train cartpole",
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage())
        return OK if arguments else BAD_INPUT
    if arguments[0] == "--version":
        from slipstream import __version__

        print(__version__)
        return OK
    name, *rest = arguments
    if name not in COMMANDS:
        import difflib

        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        print(f"slipstream: there is no command {name!r}.{hint}\n\n{usage()}", file=sys.stderr)
        return BAD_INPUT
    return _run(name, rest)


def _run(name: str, arguments: list[str]) -> int:
    try:
        try:
            return _run_command(name, arguments)
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        # Also while libraries are still being imported: whoever stops a command wants no traceback.
        print(f"slipstream {name}: stopped.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        if _is_heard():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still to be written at the end
        return OK


def _is_heard() -> bool:
    """Whether somebody still reads what is printed: `head` stops when it has seen enough."""
    listener = select.poll()
    listener.register(sys.stdout.fileno(), 0)  # errors are always told
    return not listener.poll(0)


def _run_command(name: str, arguments: list[str]) -> int:
    module, name, options = parse(name, arguments)
    from slipstream.arrays import BackendError
    from slipstream.runs.directory import RunError

    try:
        return module.run(options)
    except (ValueError, BackendError, RunError) as error:
        print(f"slipstream {name}: {error}", file=sys.stderr)
        return BAD_INPUT


def parse(name: str, arguments: list[str]) -> tuple[Any, str, Any]:
    """The module of a command, its whole name, and what was asked of it. Ends the process if that makes no sense."""
    import tyro

    module_name, _, record = COMMANDS[name][0].partition(":")
    module: Any = importlib.import_module(f"slipstream.cli.{module_name}")
    kind, actions = getattr(module, record), getattr(module, "ACTIONS", {})
    if arguments and arguments[0] in actions:
        kind, name = actions[arguments[0]], f"{name} {arguments[0]}"
        arguments = arguments[1:]
    return module, name, tyro.cli(kind, args=arguments, prog=f"slipstream {name}")


if __name__ == "__main__":
    sys.exit(main())
