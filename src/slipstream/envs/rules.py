"""A world's own code while it is traced: what it must not do, and how it is told so, with file and line.

The rules are called with arrays that hold a quantity of all worlds and have no values yet. Python's `if` cannot look at
them, and neither can NumPy: it would freeze the values of one moment into the compiled step, and hand Dr.Jit memory
that it cannot record (which ends the process, so it must not come to that).
"""

from __future__ import annotations

import inspect
import linecache
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import drjit as dr
import numpy as np

from slipstream.arrays import __file__ as arrays_file
from slipstream.arrays import noting_foreign_arrays
from slipstream.envs.drawing import Picture
from slipstream.envs.env import Env

PACKAGE = str(Path(__file__).parents[1])


class RulesError(ValueError):
    """A world's own code does something that rules cannot do, or returned what does not fit its declaration."""


NO_TRUTH = (
    "a quantity of all worlds is neither true nor false; use dr.select(condition, a, b) instead of `if`, & and | for "
    "`and` and `or`, dr.select(flag, False, True) for `not`, dr.maximum and dr.minimum for max and min"
)
NO_NUMPY = (
    "NumPy cannot compute with quantities of all worlds; use plain arithmetic and dr.* (dr.sin, dr.clip, dr.select), "
    "and make constants plain numbers (an array that rules read is returned by `Env.tables`)"
)
ONE_NUMBER = "this works on single numbers, not on quantities of all worlds; use dr.* (dr.sin, dr.floor, dr.select ...)"
NO_VALUES = (
    "quantities have no values yet while the rules are recorded; to print or to look at them, use backend='scalar'"
)
NO_INDEX = "a quantity of all worlds is no index; use dr.select, or dr.gather from an array that `Env.tables` returns"

ADVICE = (
    (r"must be real number, not|float\(\) argument|int\(\) argument|__round__|__trunc__|__floor__", ONE_NUMBER),
    (r"abstract array.*drjit", ONE_NUMBER),
    (r"jit_var_read|__repr__\(\)|__getitem__\(\): jit", NO_VALUES),
    (r"indices must be integers", NO_INDEX),
)
"""What errors of Dr.Jit and Python mean when a world's rules run into them."""

_traced: ContextVar[bool] = ContextVar("traced", default=False)
"""Whether the rules of some world are being traced in this thread."""


@contextmanager
def tracing(env: Env) -> Iterator[None]:
    """Within this context rules are traced. What they raise becomes a `RulesError` that names file and line."""
    _guard_arrays()
    before = _traced.set(True)
    try:
        yield
    except RulesError:
        raise
    except Exception as error:
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        where = _place_in_rules(frames, env)
        if where is None:
            raise
        text = next((advice for pattern, advice in ADVICE if re.search(pattern, str(error))), None)
        lines = " ".join(str(error).split())
        raise RulesError(f"{where}: {text or f'{type(error).__name__}: {lines}'}.") from error
    finally:
        _traced.reset(before)


@cache
def _guard_arrays() -> None:
    """Make traced arrays refuse to be true or false, and to become arrays of another library (all others do as before).

    This must be stopped where it begins: what NumPy makes of such an array, nobody could tell from a constant.
    """

    def forbid(name: str, why: str, constants: bool = True) -> None:
        convert = getattr(dr.ArrayBase, name)

        def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
            if _traced.get() and dr.is_jit_v(self) and (constants or self.state is not dr.VarState.Literal):
                raise RulesError(f"{_place_in_rules(_frames()) or 'The rules'}: {why}.")
            return convert(self, *args, **kwargs)

        setattr(dr.ArrayBase, name, guarded)

    forbid("__bool__", NO_TRUTH, constants=False)
    for name in ("__array__", "__dlpack__", "numpy", "jax", "torch"):
        forbid(name, NO_NUMPY)


def rehearse(env: Env, trace: Callable[[], Any]) -> None:
    """Trace a world's rules without recording, and refuse them if they compute with arrays of NumPy.

    In a recording, Dr.Jit would end the process when such an array is let go.
    """
    found: list[str] = []

    def note() -> None:
        # Another thread may do as it likes, and so may our own code, which knows what it does.
        if _traced.get() and not _is_ours(_frames()):
            found.append(_place_in_rules(_frames(), env) or "The rules")

    try:
        with tracing(env), noting_foreign_arrays(note):
            trace()
    except RulesError:
        if not found:
            raise
    if found:
        raise RulesError(f"{found[0]}: {NO_NUMPY}.")


def picture_of(env: Env, state: Mapping[str, np.ndarray]) -> Picture:
    """What a world looks like (`Env.draw`). What goes wrong in it becomes a `RulesError` that names file and line.

    Args:
        env: the world.
        state: of a single world.
    """
    try:
        picture = env.draw(state)
    except Exception as error:
        where = _place_in_rules([frame for frame, _ in traceback.walk_tb(error.__traceback__)], env)
        raise RulesError(f"{where}: {type(error).__name__}: {' '.join(str(error).split())}") from error
    if not isinstance(picture, Picture):
        raise RulesError(f"{type(env).__name__}.draw returned no picture.")
    return picture


def numpy_in_reach(env: Env) -> bool:
    """Whether a world that is not one of ours could use NumPy in its rules: its module does, or it has arrays."""
    classes = [c for c in type(env).__mro__ if issubclass(c, Env) and not c.__module__.startswith("slipstream.")]
    names = [vars(sys.modules[c.__module__]) for c in classes if c.__module__ in sys.modules]
    values = [v for scope in (*names, *map(vars, classes), vars(env) if classes else {}) for v in scope.values()]
    return any(isinstance(v, np.ndarray) or getattr(v, "__name__", "").split(".")[0] == "numpy" for v in values)


def plain(value: Any, what: str) -> Any:
    """What the rules returned, if it is an array of Dr.Jit or a number (which a scalar of NumPy becomes)."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bool | int | float) or dr.is_array_v(value):
        return value
    kind = type(value)
    name = f"{kind.__module__.partition('.')[0]}.{kind.__name__}" if kind.__module__ != "builtins" else kind.__name__
    raise RulesError(f"{what} is a {name}; it must be an array of Dr.Jit or a number.")


# Where in the user's code we are.


def _is_ours(frames: list[FrameType]) -> bool:
    """Whether the innermost code, but for what listens and for libraries, is of this package."""
    listening = (__file__, arrays_file)
    files = [f.f_code.co_filename for f in frames]
    inner = [f for f in files if f not in listening and "site-packages" not in f]
    return bool(inner) and inner[-1].startswith(PACKAGE + os.sep)


def _frames() -> list[FrameType]:
    """The frames of this thread, outermost first."""
    return [frame for frame, _ in traceback.walk_stack(sys._getframe(1))][::-1]


def _place_in_rules(frames: list[FrameType], env: Env | None = None) -> str | None:
    """The innermost place in a world's own code, as `file:line, in function: code`."""
    own = {file for c in type(env).__mro__ if (file := _file_of(c))} - {inspect.getfile(Env)} if env else set()
    for frame in reversed(frames):
        file = frame.f_code.co_filename
        if file in own or not (file.startswith((PACKAGE, sys.prefix, "<frozen")) or "site-packages" in file):
            code = linecache.getline(file, frame.f_lineno, frame.f_globals).strip()
            shown = f" `{code}`" if code else ""
            return f"{_short(file)}:{frame.f_lineno}, in {frame.f_code.co_name}{shown}"
    return None


def _file_of(kind: type) -> str | None:
    try:
        return inspect.getfile(kind)
    except (TypeError, OSError):
        return None


def _short(file: str) -> str:
    """A path as the user would write it."""
    relative = os.path.relpath(file) if os.path.isabs(file) else file
    return file if relative.startswith("..") else relative
