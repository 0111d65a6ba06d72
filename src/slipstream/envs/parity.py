"""Whether the compiled worlds and the plain ones agree, step by step, up to rounding.

Every step starts from the compiled state, so that differences do not build up. The compiled worlds compute in
float32 and the plain ones in float64, so two kinds of difference are nobody's fault:

* values that rounding has moved a little. They agree within a tolerance (see also `Env.tolerances`);
* a world that stands at a discontinuity (a wall, a tie between neighbours, the limit of a tag): rounding
  decides on which side it falls, and all that follows from it differs. To tell this from a mistake, the
  plain world takes the same step again from states and actions changed by a few units in the last place of
  float32. What the compiled world did must be among the things that this leads to.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slipstream.envs.frames import Finding, Frame, frame_of_state, of_worlds, problems_where, take_step
from slipstream.envs.scalar import ScalarWorlds
from slipstream.envs.worlds import Worlds
from slipstream.spaces import Box

RELATIVE, ABSOLUTE = 1e-4, 1e-5
"""How far apart values may be that rounding alone has moved."""

TRIALS = 24
NUDGE = 2.0**-21
"""Four units in the last place of float32: how far a trial's numbers are moved."""


def _field(name: str) -> str:
    """What `Env.tolerances` calls the field that an array of a frame belongs to."""
    return name.partition("[")[0].partition("/")[0].removeprefix("state.").removeprefix("final_")


def _agree(expected: np.ndarray, got: np.ndarray, tolerance: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        near = np.abs(expected - got) <= tolerance
    return near | (expected == got) | (np.isnan(expected) & np.isnan(got))


def _numbers(frame: Frame, num_worlds: int) -> Frame:
    return {name: of_worlds(array, num_worlds).astype(np.float64) for name, array in frame.items()}


class Parity:
    """Steps compiled worlds, and plain ones from the same states beside them."""

    def __init__(self, compiled: Worlds, plain: Worlds, seed: int = 0):
        self.compiled, self.plain = compiled, plain
        assert isinstance(plain.engine, ScalarWorlds), "the plain worlds are those of the scalar backend"
        self._one_by_one = plain.engine
        self.explained = 0
        """How many values rounding could account for only as a world on the edge of something."""
        self._draw = np.random.default_rng(seed)
        self._by_field = plain.env.tolerances
        known = {_field(name) for name in frame_of_state(plain)} | {"observation"}
        if unknown := sorted(set(self._by_field) - known):
            raise ValueError(f"`tolerances` names {', '.join(unknown)}, which the state does not have.")

    def _tolerance(self, frame: Frame) -> Frame:
        """How far from each value of a frame another may be that is the same up to rounding."""
        fields: dict[str, list[np.ndarray]] = {}
        for name, values in frame.items():
            fields.setdefault(name.partition("[")[0], []).append(values)
        result: Frame = {}
        for name, values in frame.items():
            relative = self._by_field.get(_field(name))
            if relative is None:
                result[name] = ABSOLUTE + RELATIVE * np.abs(values)
            else:
                together = np.abs(np.concatenate(fields[name.partition("[")[0]], axis=1))
                result[name] = ABSOLUTE + relative * np.broadcast_to(together.max(axis=1, keepdims=True), values.shape)
        return result

    def compare_start(self) -> Iterator[Finding]:
        """Problems of the first state of an episode."""
        n = self.compiled.num_worlds
        expected, got = (_numbers(frame_of_state(w), n) for w in (self.plain, self.compiled))
        tolerance = self._tolerance(expected)
        for name, values in expected.items():
            yield from problems_where(~_agree(values, got[name], tolerance[name]), name, 0, values, got[name])

    def step(self, number: int) -> Iterator[Finding]:
        """Take one step with random actions, and yield what cannot be explained by rounding."""
        n = self.compiled.num_worlds
        actions = self.compiled.checked_actions(self.compiled.sample_actions())
        before = self.compiled.save()
        self.plain.restore(before)
        got = _numbers(take_step(self.compiled, actions), n)
        expected = _numbers(take_step(self.plain, actions), n)
        near, around = self._tolerance(expected), self._tolerance(got)
        wrong = {name: ~_agree(values, got[name], near[name]) for name, values in expected.items()}
        given = {name: np.asarray(a) for name, a in actions.items()}
        for world in np.flatnonzero(np.any([w.any(axis=1) for w in wrong.values()], axis=0)):
            trials = self._trials(int(world), before, given)
            for name in wrong:
                outcomes = np.stack([expected[name][world], *(t[name] for t in trials)]).astype(np.float64)
                possible = _reachable(outcomes, got[name][world], around[name][world])
                self.explained += int((wrong[name][world] & possible).sum())
                wrong[name][world] &= ~possible
        for name, values in expected.items():
            yield from problems_where(wrong[name], name, number, values, got[name])

    def _trials(self, world: int, before: Frame, actions: Frame) -> list[Frame]:
        """What a plain world may do when its numbers are moved a little: frames of that world, `[values]`."""
        trials = []
        for _ in range(TRIALS):
            self.plain.restore({name: self._nudge(a) if name.startswith("state/") else a for name, a in before.items()})
            moved = dict(actions)
            for group in self.plain.groups:
                if isinstance(group.action, Box):
                    moved[group.name] = self._nudge(actions[group.name])
            row = {n: v.reshape(-1) for n, v in self._one_by_one.step_world(world, moved).items()}
            state = _numbers(frame_of_state(self.plain), self.plain.num_worlds)
            trials.append(row | {name: values[world] for name, values in state.items()})
        return trials

    def _nudge(self, array: np.ndarray) -> np.ndarray:
        if not np.issubdtype(array.dtype, np.floating):
            return array
        by = self._draw.uniform(-NUDGE, NUDGE, array.shape)
        # Half of the trials move zeros too: a number may be the difference of two that were rounded.
        return array * (1.0 + by) + by * float(self._draw.random() < 0.5)


def _reachable(outcomes: np.ndarray, got: np.ndarray, tolerance: np.ndarray) -> np.ndarray:
    """Whether values lie among those of the trials, or as far from one of them as trials typically are.

    Args:
        outcomes: `[trials, values]`, the first without any nudge.
        got: `[values]`.
        tolerance: `[values]`.
    """
    with np.errstate(invalid="ignore"):
        typical = np.median(np.abs(outcomes - outcomes[0]), axis=0)
        close = np.abs(outcomes - got) <= tolerance + 4.0 * typical
    return (close | (np.isnan(outcomes) & np.isnan(got)) | (outcomes == got)).any(axis=0)
