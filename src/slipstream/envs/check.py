"""Tests that every world should pass, a user's own above all: what `slipstream check` runs.

Each property is a function that yields problems as it finds them. A property that holds yields none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from slipstream.envs.env import Env
from slipstream.envs.frames import (
    Finding,
    Frame,
    different,
    frame_of_state,
    of_worlds,
    problems_where,
    put_worlds,
    take_step,
)
from slipstream.envs.parity import Parity
from slipstream.envs.registry import AnyEnv, env_class, env_name, make_env
from slipstream.envs.watched import Watched
from slipstream.envs.worlds import Worlds
from slipstream.spaces import Box

MOST_PROBLEMS = 12
"""A property is given up after so many problems: the first ones tell most."""

EPISODES = 8
PLAIN_WORLDS = 4
"""How many worlds run in plain Python where a few tell as much as many."""
UNBOUNDED = 1e6
"""How large an extreme action is where the space has no bound."""


@dataclass(frozen=True)
class Result:
    """Whether a property holds."""

    name: str
    problems: tuple[Finding, ...]
    note: str = ""

    @property
    def passed(self) -> bool:
        return not self.problems


@dataclass(frozen=True)
class Subject:
    """What is checked, and how thoroughly."""

    make_env: Callable[[], Env]
    num_worlds: int
    num_steps: int
    seed: int
    backend: str

    def worlds(self, num_worlds: int | None = None, backend: str | None = None) -> Worlds:
        """Fresh worlds around a fresh `Env`, always of the same seed."""
        return Worlds(self.make_env(), num_worlds or self.num_worlds, self.seed, backend or self.backend)


def check(
    env: AnyEnv,
    num_worlds: int = 16,
    num_steps: int = 100,
    seed: int = 0,
    backend: str = "auto",
    **options: Any,
) -> list[Result]:
    """Test a world in every way we know.

    Args:
        env: the world, by its name, its class, or made already.
        num_worlds: how many copies run side by side.
        num_steps: how many steps each test takes.
        seed: of the worlds and of the random actions.
        backend: the compiled backend that is compared with the scalar one.
        **options: of the world.

    Returns:
        A result for each property, in the order of `PROPERTIES`.
    """
    for name, count in (("worlds", num_worlds), ("steps", num_steps)):
        if count < 2:
            raise ValueError(f"The number of {name} to check with must be at least 2, got {count}.")
    made_of = env if isinstance(env, Env) else env_class(env)  # a user's file is read once
    if made_of.engine is not None:
        raise ValueError(
            f"{env_name(env)} is run by another library: there is no plain Python to compare it with. Check it there."
        )
    subject = Subject(partial(make_env, made_of, **options), num_worlds, num_steps, seed, backend)
    results = []
    for name, test in PROPERTIES.items():
        results.append(_run(name, test, subject))
        if name == "builds" and not results[0].passed:
            break
    return results


def _run(name: str, test: Callable[[Subject, list[str]], Iterator[Finding]], subject: Subject) -> Result:
    notes: list[str] = []
    problems: list[Finding] = []
    try:
        problems.extend(islice(test(subject, notes), MOST_PROBLEMS))
    except Exception as error:  # the rules are someone else's code: whatever they raise is a finding
        problems.append(Finding(None, None, type(error).__name__, "no error", _first_lines(error)))
    return Result(name, tuple(problems), "; ".join(notes))


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines)[:500]


# The properties.


def builds(subject: Subject, notes: list[str]) -> Iterator[Finding]:
    """The rules can be traced, and run in plain Python; what they return fits the groups."""
    for worlds in (subject.worlds(), subject.worlds(num_worlds=1, backend="scalar")):
        take_step(worlds, worlds.sample_actions())
    yield from ()


def agrees_with_scalar(subject: Subject, notes: list[str]) -> Iterator[Finding]:
    """The compiled worlds do what plain Python does, step by step."""
    parity = Parity(subject.worlds(), subject.worlds(backend="scalar"), subject.seed)
    yield from parity.compare_start()
    for step in range(1, subject.num_steps + 1):
        yield from parity.step(step)
    if parity.explained:
        notes.append(f"{parity.explained} values at a discontinuity, explained by rounding")


def is_deterministic(subject: Subject, notes: list[str]) -> Iterator[Finding]:
    """The same seed and actions give the same bits."""
    first, second = subject.worlds(), subject.worlds()
    everyone = range(subject.num_worlds)
    yield from different(frame_of_state(first), frame_of_state(second), everyone, 0)
    for step in range(1, subject.num_steps + 1):
        actions = first.sample_actions()
        yield from different(take_step(first, actions), take_step(second, actions), everyone, step)


def is_independent(subject: Subject, notes: list[str]) -> Iterator[Finding]:
    """A world's trajectory depends neither on its neighbours nor on their number, not even on broken ones."""
    worlds = subject.worlds()
    start, actions, frames = worlds.save(), [], [frame_of_state(worlds)]
    for _ in range(subject.num_steps):
        actions.append(worlds.checked_actions(worlds.sample_actions()))
        frames.append(take_step(worlds, actions[-1]))
    yield from _among_fewer(subject, actions, frames)

    kept = np.arange(subject.num_worlds) % 2 == 0
    worlds.restore(start)
    for step, (given, frame) in enumerate(zip(actions, frames[1:]), 1):
        others = worlds.checked_actions(worlds.sample_actions())
        mixed = {name: put_worlds(np.asarray(others[name]), np.asarray(a), kept) for name, a in given.items()}
        if step == subject.num_steps // 2:
            _break_worlds(worlds, ~kept)
        yield from different(frame, take_step(worlds, mixed), np.flatnonzero(kept).tolist(), step)


def _among_fewer(subject: Subject, actions: list[Frame], frames: list[Frame]) -> Iterator[Finding]:
    fewer = subject.num_worlds // 2
    worlds = subject.worlds(fewer)
    yield from different(frames[0], frame_of_state(worlds), range(fewer), 0)
    for step, (given, frame) in enumerate(zip(actions, frames[1:]), 1):
        share = {n: np.asarray(a)[..., : a.shape[-1] // subject.num_worlds * fewer] for n, a in given.items()}
        yield from different(frame, take_step(worlds, share), range(fewer), step)


def _break_worlds(worlds: Worlds, which: np.ndarray) -> None:
    """Make every real number in the state of some worlds undefined."""
    saved = worlds.save()
    for name, array in saved.items():
        if name.startswith("state/") and np.issubdtype(array.dtype, np.floating):
            saved[name] = put_worlds(array, np.full_like(array, np.nan), which)
    worlds.restore(saved)


def stays_finite(subject: Subject, notes: list[str]) -> Iterator[Finding]:
    """Random actions never lead to a state, an observation or a reward that is infinite or undefined."""
    worlds = subject.worlds()
    watched = Watched(subject.make_env())
    plain = Worlds(watched, min(PLAIN_WORLDS, subject.num_worlds), subject.seed, "scalar")
    for step in range(1, subject.num_steps + 1):
        yield from _not_finite(take_step(worlds, worlds.sample_actions()), worlds.num_worlds, step)
        # A reward that is not finite reads 0 in what a step returns: look at what the rules themselves gave.
        watched.rewards.clear()
        plain.step(plain.sample_actions())
        for world, reward in enumerate(watched.rewards):
            for name, value in reward.items():
                row = np.atleast_1d(np.asarray(value, np.float64))[None]
                for p in problems_where(~np.isfinite(row), f"reward/{name}", step, "a finite number", row):
                    yield Finding(world, step, p.field, p.expected, p.got)


def _not_finite(frame: Frame, num_worlds: int, step: int) -> Iterator[Finding]:
    """Observations that are not finite, and worlds that were reset because their state was not."""
    for name, array in frame.items():
        if name.partition("/")[0] in ("observation", "final_observation"):
            rows = of_worlds(array, num_worlds)
            yield from problems_where(~np.isfinite(rows), name, step, "a finite number", rows)
    broken = of_worlds(frame["clock.broken"], num_worlds)
    yield from problems_where(broken > 0, "state", step, "finite (times it was not: 0)", broken)


def fits_spaces(subject: Subject, notes: list[str]) -> Iterator[Finding]:
    """Observations lie within their bounds, and at least one choice of every action is always allowed."""
    worlds = subject.worlds()
    yield from _outside(worlds, {f"observation/{n}": v for n, v in _by_group(worlds, worlds.observe()).items()}, 0)
    for step in range(1, subject.num_steps + 1):
        frame = take_step(worlds, worlds.sample_actions())
        yield from _outside(worlds, frame, step)
        yield from _nothing_allowed(worlds, frame, step)


def _by_group(worlds: Worlds, value: Any) -> dict[str, Any]:
    value = value if isinstance(value, dict) else {worlds.groups[0].name: value}
    return {name: np.asarray(array) for name, array in value.items()}


def _outside(worlds: Worlds, frame: Frame, step: int) -> Iterator[Finding]:
    for group in worlds.groups:
        space, name = group.observation, f"observation/{group.name}"
        slack = 1e-5 * np.maximum(1.0, np.abs(frame[name]))
        low, high = space.lows[:, None], space.highs[:, None]
        wrong = of_worlds((frame[name] < low - slack) | (frame[name] > high + slack), worlds.num_worlds)
        bounds = f"within {space.low} .. {space.high}"
        yield from problems_where(wrong, name, step, bounds, of_worlds(frame[name], worlds.num_worlds))


def _nothing_allowed(worlds: Worlds, frame: Frame, step: int) -> Iterator[Finding]:
    for group in worlds.groups:
        mask = frame.get(f"action_mask/{group.name}")
        if mask is None or isinstance(group.action, Box):
            continue
        starts = np.cumsum((0, *group.action.choices[:-1]))
        allowed = of_worlds(np.add.reduceat(mask.astype(int), starts, axis=0), worlds.num_worlds)
        yield from problems_where(allowed == 0, f"action_mask/{group.name}", step, "a choice", allowed)


def somebody_plays(subject: Subject, notes: list[str]) -> Iterator[Finding]:
    """Agents are in the game at some time: those that never are have nothing to learn from."""
    worlds = subject.worlds()
    seen = {name: bool(np.asarray(flags).any()) for name, flags in worlds.active().items()}
    if not seen:
        return  # the world does not say: everybody plays all the time
    for _ in range(subject.num_steps):
        frame = take_step(worlds, worlds.sample_actions())
        seen = {name: before or bool(frame[f"active/{name}"].any()) for name, before in seen.items()}
    never = [name for name, active in seen.items() if not active]
    so_far = f"in {subject.num_steps} steps of {subject.num_worlds} worlds"
    if len(never) == len(seen):
        yield Finding(
            None, None, "active", "an agent that is in the game", f"none {so_far}: nobody would learn anything"
        )
    elif never:
        notes.append(f"no agent of {', '.join(never)} was in the game {so_far}")


def begins_anew(subject: Subject, notes: list[str]) -> Iterator[Finding]:
    """If starts are random at all, they differ from world to world and from episode to episode."""
    watched = Watched(subject.make_env())
    worlds = Worlds(watched, subject.num_worlds, subject.seed, subject.backend)
    starts = []
    for _ in range(EPISODES):
        state = {n: a for n, a in frame_of_state(worlds).items() if n.startswith("state.")}
        starts.append(np.concatenate([of_worlds(a, worlds.num_worlds) for a in state.values()], axis=1))
        worlds.reset()
    if not watched.drew:
        notes.append("reset draws no random numbers: every episode starts alike")
        return
    by_episode = np.stack(starts)
    if np.all(by_episode == by_episode[:, :1]):
        yield Finding(None, 0, "state", "starts that differ between worlds", "all alike")
    if np.all(by_episode == by_episode[:1]):
        yield Finding(None, 0, "state", "starts that differ between episodes", f"{EPISODES} times the same")


def survives_extremes(subject: Subject, notes: list[str]) -> Iterator[Finding]:
    """States and observations hold out against the lowest, the highest and the most erratic actions."""
    worlds = subject.worlds()
    draw = np.random.default_rng(subject.seed)
    start = worlds.save()
    for share in (0.0, 1.0, 0.5):
        worlds.restore(start)
        for step in range(1, subject.num_steps + 1):
            frame = take_step(worlds, _extreme_actions(worlds, share, draw))
            yield from _not_finite(frame, worlds.num_worlds, step)
            yield from _outside(worlds, frame, step)


def _extreme_actions(worlds: Worlds, share: float, draw: np.random.Generator) -> Frame:
    """The highest action (in the given share of components) or the lowest one, of those that are allowed."""
    masks = worlds.action_mask()
    actions = {}
    for group in worlds.groups:
        space, lanes = group.action, worlds.lanes(group.name)
        high = draw.random((space.size, lanes)) < share
        if isinstance(space, Box):
            lows, highs = (np.clip(b, -UNBOUNDED, UNBOUNDED)[:, None] for b in (space.lows, space.highs))
            actions[group.name] = np.where(high, highs, lows).astype(np.float32)
            continue
        allowed = np.asarray(masks.get(group.name, np.ones((sum(space.choices), lanes), bool)))
        parts = np.split(allowed, np.cumsum(space.choices)[:-1])
        lowest = np.stack([p.argmax(axis=0) for p in parts])
        highest = np.stack([len(p) - 1 - p[::-1].argmax(axis=0) for p in parts])
        actions[group.name] = np.where(high, highest, lowest).astype(np.int32)
    return actions


PROPERTIES: dict[str, Callable[[Subject, list[str]], Iterator[Finding]]] = {
    "builds": builds,
    "compiled and scalar agree": agrees_with_scalar,
    "deterministic": is_deterministic,
    "worlds are independent": is_independent,
    "finite": stays_finite,
    "spaces": fits_spaces,
    "agents play": somebody_plays,
    "resets differ": begins_anew,
    "extreme actions": survives_extremes,
}
