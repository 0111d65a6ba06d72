"""Worlds whose rules do what cannot be traced, in the line that ends with `# here`; NumPy's would end the process."""

from __future__ import annotations

import json
import math
import sys

import drjit as dr
import jax.numpy as jnp
import numpy as np
from small_worlds import Drift, Position

from slipstream.envs import Worlds

NUMPY = "NumPy cannot compute with quantities of all worlds; use plain arithmetic and dr."
TRUTH = "neither true nor false; use dr.select(condition, a, b) instead of `if`, & and | for"
SINGLE = "works on single numbers, not on quantities of all worlds; use dr."
VALUES = "no values yet while the rules are recorded"


class Sine(Drift):
    def step(self, state, action, rng):
        return Position(np.sin(state.x)), 0.0, False  # here


class Reward(Drift):
    def step(self, state, action, rng):
        return state, np.abs(state.x), False  # here


class Stack(Drift):
    def step(self, state, action, rng):
        both = np.array([state.x, action[0]])  # here
        return state, -float(np.sum(both**2)), False


class Observes(Drift):
    def observe(self, state):
        return (np.tanh(state.x),)  # here


class Begins(Drift):
    def reset(self, rng):
        return Position(np.clip(rng.uniform(), 0.1, 0.9))  # here


class Left(Drift):
    goal = np.array([0.5, 0.25], np.float32)

    def step(self, state, action, rng):
        return state, self.goal * state.x, False  # here


class Right(Drift):
    goal = np.array([0.5, 0.25], np.float32)

    def step(self, state, action, rng):
        return state, state.x - self.goal, False  # here


class ObservesRight(Drift):
    goal = np.array([0.5], np.float32)

    def observe(self, state):
        return (state.x - self.goal,)  # here


class Selects(Drift):
    def step(self, state, action, rng):
        return state, dr.select(state.x > 0.0, np.array([1.0, 2.0, 3.0], np.float32), 0.0), False  # here


class Forgets(Drift):
    def step(self, state, action, rng):
        state.x + np.array([1.0, 2.0, 3.0], np.float32)  # here
        return state, 0.0, False


class Looks(Drift):
    table = np.array([0.5, 0.25], np.float32)

    def step(self, state, action, rng):
        return state, self.table[dr.int32_array_t(state.x)(state.x)], False  # here


class Helps(Drift):
    def step(self, state, action, rng):
        return state, length(state.x), False


def length(x):
    return np.linalg.norm([x])  # here


class If(Drift):
    def step(self, state, action, rng):
        if state.x > 0.0:  # here
            return state, 1.0, False
        return state, 0.0, False


class And(Drift):
    def step(self, state, action, rng):
        return state, 0.0, state.x > 0.0 and action[0] > 0.0  # here


class Not(Drift):
    def observe(self, state):
        return (0.0 if not state.x > 0.0 else 1.0,)  # here


class Maximum(Drift):
    def step(self, state, action, rng):
        return Position(max(state.x, 0.0)), 0.0, False  # here


class Between(Drift):
    def step(self, state, action, rng):
        return state, 0.0, -0.1 < state.x < 0.1  # here


class Math(Drift):
    def step(self, state, action, rng):
        return Position(math.sin(state.x)), 0.0, False  # here


class Jax(Drift):
    def step(self, state, action, rng):
        return Position(jnp.sin(state.x)), 0.0, False  # here


class Reads(Drift):
    def step(self, state, action, rng):
        return Position(state.x[0]), 0.0, False  # here


class Indexes(Drift):
    def step(self, state, action, rng):
        return state, [0.0, 1.0][dr.int32_array_t(state.x)(state.x)], False  # here


class Mistyped(Drift):
    def step(self, state, action, rng):
        return Position(state.y), 0.0, False  # here


CASES = {
    **dict.fromkeys((Sine, Reward, Stack, Observes, Begins, Left, Right, ObservesRight, Selects, Forgets), NUMPY),
    **dict.fromkeys((Looks, Helps), NUMPY),
    **dict.fromkeys((If, And, Not, Maximum, Between), TRUTH),
    **dict.fromkeys((Math, Jax), SINGLE),
    Reads: VALUES,
    Indexes: "no index; use dr.select",
    Mistyped: "AttributeError: 'Position' object has no attribute 'y'.",
}
"""What is said of each."""


def main() -> None:
    """Say what comes of every world, for a process of its own."""
    found = {}
    for env in CASES:
        for num_worlds in (1, 3):
            try:
                worlds = Worlds(env(), num_worlds, backend="llvm")
                worlds.step(worlds.sample_actions())
                worlds.rollout_random(1)
            except Exception as error:
                found[f"{env.__name__} {num_worlds}"] = [type(error).__name__, str(error)]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
