"""The protocol a user writes: `Env`, its groups of agents, and its state.

A world is written as if there were only one of it. Its quantities are Dr.Jit arrays that hold the same
quantity of *all* worlds, so every rule must be arithmetic (`dr.select` instead of `if`).

* A quantity of a world is one array (or a tuple of arrays, such as the joint angles of a robot).
* A quantity of the agents is a dictionary from group name to array: `{"wolf": ..., "sheep": ...}`.

`Group` has the operations that lead from one kind to the other, so that no rule computes an index.
"""

from __future__ import annotations

import dataclasses
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import drjit as dr
import numpy as np

from slipstream.arrays import ArrayTypes
from slipstream.envs.drawing import Picture
from slipstream.random import Rng
from slipstream.spaces import Box, Space

Float = Int = Bool = Any
"""For annotating the fields of a state. A state field is an array of whichever backend runs."""


@dataclasses.dataclass(frozen=True)
class Group:
    """Agents of a world that observe and act alike, and what one of them observes and does."""

    name: str
    observation: Box
    action: Space
    size: int = 1

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"Group {self.name!r} needs at least one agent, got size={self.size}.")

    # From a world to its agents.

    def spread(self, of_world: Any) -> Any:
        """Give every agent its world's value."""
        if self.size == 1 or _is_number(of_world) or len(of_world) == 1:
            return of_world
        return once(("spread", self.size), [of_world], lambda: _repeat(of_world, self.size))

    def index(self, of_world: Any) -> Any:
        """The number of each agent within its world, 0 .. size - 1 (`of_world`: any value of the world)."""
        if _is_number(of_world):
            import drjit.scalar

            return dr.arange(drjit.scalar.ArrayXu, self.size)
        return self._number(dr.uint32_array_t(type(of_world)), len(of_world) * self.size)

    def _number(self, unsigned: type, lanes: int) -> Any:
        lane = dr.arange(unsigned, lanes)
        return lane - lane // self.size * self.size

    # From the agents to their world.

    def sum(self, of_agents: Any) -> Any:
        if _is_constant(of_agents):
            return self.pick(of_agents, 0) * self.size
        return self._reduce(dr.ReduceOp.Add, of_agents)

    def mean(self, of_agents: Any) -> Any:
        return self.sum(of_agents) * (1.0 / self.size)

    def min(self, of_agents: Any) -> Any:
        if _is_constant(of_agents):
            return self.pick(of_agents, 0)
        return self._reduce(dr.ReduceOp.Min, of_agents)

    def max(self, of_agents: Any) -> Any:
        if _is_constant(of_agents):
            return self.pick(of_agents, 0)
        return self._reduce(dr.ReduceOp.Max, of_agents)

    def lowest(self, of_agents: Any, below: int, carry: Any, carry_below: int) -> tuple[Any, Any]:
        """The lowest value of each world, and what the agent that has it (the first one on a tie) carries.

        Args:
            of_agents: whole numbers in 0 .. below - 1.
            below: their bound.
            carry: whole numbers in 0 .. carry_below - 1.
            carry_below: their bound.
        """
        if _is_constant(of_agents) and _is_constant(carry):
            return self.pick(of_agents, 0), self.pick(carry, 0)
        if not dr.is_jit_v(of_agents):
            best = min(range(self.size), key=lambda i: (of_agents[i], i))
            return of_agents[best], carry[best]
        carry = dr.int32_array_t(type(of_agents))(carry)
        # Value, number and load share one word: a single pass finds all three.
        fits = below * self.size * carry_below <= 2**32
        word_type: Any = (dr.uint32_array_t if fits else dr.uint64_array_t)(type(of_agents))

        def search() -> Any:
            lanes = max(len(of_agents), len(carry))
            number = self._number(dr.uint32_array_t(type(of_agents)), lanes)
            order = dr.fma(word_type(of_agents), word_type(self.size), word_type(number))
            return self.min(dr.fma(order, word_type(carry_below), word_type(carry)))

        word = once(("lowest", self.size, carry_below, fits), [of_agents, carry], search)
        order = word // carry_below
        integer: Any = dr.int32_array_t(word_type)
        return integer(order // self.size), integer(word - order * carry_below)

    def pick(self, of_agents: Any, number: Any) -> Any:
        """The value of the agent with the given number in each world."""
        if _is_number(of_agents):
            return of_agents
        if not dr.is_jit_v(of_agents):
            return of_agents[number]
        if self.size == 1 or len(of_agents) == 1:
            return of_agents
        unsigned = dr.uint32_array_t(type(of_agents))
        world = dr.arange(unsigned, len(of_agents) // self.size)
        return dr.gather(type(of_agents), of_agents, world * self.size + number)

    def shown_to(self, seeker: Group, of_agents: Any, number: Any) -> Any:
        """For each agent of `seeker`, the value of an agent of this group in the same world.

        Args:
            seeker: who gets to know it.
            of_agents: a quantity of this group.
            number: which agent, the same for all seekers or one for each.
        """
        if _is_number(of_agents):
            return of_agents
        if not dr.is_jit_v(of_agents):
            return of_agents[number] if _is_number(number) else type(of_agents)([of_agents[n] for n in number])
        if len(of_agents) == 1:
            return of_agents
        unsigned = dr.uint32_array_t(type(of_agents))
        lane = dr.arange(unsigned, len(of_agents) // self.size * seeker.size)
        return dr.gather(type(of_agents), of_agents, lane // seeker.size * self.size + number)

    def count(self, which: Any) -> Any:
        """How many agents of each world the flag is set for, as an integer."""
        return self.sum(dr.select(which, 1, 0) if _is_number(which) else dr.int32_array_t(type(which))(which))

    def any(self, which: Any) -> Any:
        return self.count(which) > 0

    def all(self, which: Any) -> Any:
        return self.count(which) == self.size

    def _reduce(self, op: dr.ReduceOp, of_agents: Any) -> Any:
        if not dr.is_jit_v(of_agents):
            return _REDUCE_PLAIN[op](list(of_agents))
        if self.size == 1:
            return of_agents
        return once((op, self.size), [of_agents], lambda: dr.block_reduce(op, of_agents, self.size))


_REDUCE_PLAIN = {dr.ReduceOp.Add: sum, dr.ReduceOp.Min: min, dr.ReduceOp.Max: max}


def _repeat(array: Any, count: int) -> Any:
    if dr.is_mask_v(array):
        # Processors gather words, not bytes: flags one by one would take as long as a whole step.
        return dr.repeat(dr.uint32_array_t(type(array))(array), count) != 0
    return dr.repeat(array, count)


_remembered: ContextVar[dict[tuple, tuple[Any, Any]] | None] = ContextVar("remembered", default=None)
"""Of this thread alone: others may be recording worlds of their own at the same time."""


@contextmanager
def remembering() -> Iterator[None]:
    """Within this context an operation over agents that was already done on the same array is not done again.

    Rules and observations often need the same reduction (who is nearest, say). Each one costs a pass over all
    agents that Dr.Jit would not merge by itself.
    """
    before = _remembered.set({})
    try:
        yield
    finally:
        _remembered.reset(before)


def once(operation: Any, arrays: Sequence[Any], compute: Callable[[], Any]) -> Any:
    """What `compute` returns, or what it returned before for the same operation on the same arrays."""
    remembered = _remembered.get()
    if remembered is None:
        return compute()

    def key() -> tuple:
        return (operation, *((type(a), a.index) for a in arrays))

    before = key()
    if before not in remembered:
        result = compute()
        # The arrays are kept too: an index stays its array's own as long as that lives.
        remembered[before] = remembered[key()] = (arrays, result)
    return remembered[before][1]


def _is_constant(value: Any) -> bool:
    """Whether all agents are known to have the same value, so that nothing must be searched or summed up."""
    return _is_number(value) or (dr.is_jit_v(value) and (len(value) == 1 or value.state is dr.VarState.Literal))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | bool)


class Env(ABC):
    """One world: subclass it, set `groups` (and `max_steps`), and write `reset`, `step` and `observe`.

    With a single group, actions, rewards and observations are bare values; with several they are dictionaries
    by group name. The options of a world are the parameters of its `__init__`.
    """

    groups: tuple[Group, ...] = ()
    max_steps: int | None = None
    """After so many steps an episode is truncated. None: never."""
    gymnasium_id: str | None = None
    """The environment of Gymnasium that is the same task, if there is one: a policy fits both."""
    gymnasium_kwargs: Mapping[str, Any] = {}
    """The arguments that make it the same."""
    notes: tuple[str, ...] = ()
    """What a user should know of the world as it was made; a run says it as it begins."""
    file_options: tuple[str, ...] = ()
    """Which options name files: a run keeps them in a form that is found from any directory."""
    engine: Any = None
    """What runs the worlds (a class with the interface of `Engine`); None: Dr.Jit, or plain Python."""
    known_as: str | None = None
    """The name of a world that another library has made, such as `brax:ant`."""
    playback_step: float = 0.1
    """How many seconds a step takes when it is shown, in a film or on a page."""
    tolerances: Mapping[str, float] = {}
    """For `slipstream check`, how far compiled worlds may be from plain ones in the fields of the state named here,
    and in the `observation`: relative to the largest number of the field, for fields whose numbers all come out of one
    calculation (the velocities of a robot, say) and share its rounding. Other numbers are compared one by one."""

    @abstractmethod
    def reset(self, rng: Rng) -> Any:
        """The first state of an episode: a dataclass. A field named `step` is kept up to date by the system:
        it is the number of steps taken in the episode (inside `step`, the one being taken included)."""

    @abstractmethod
    def step(self, state: Any, action: Any, rng: Rng) -> tuple[Any, Any, Any]:
        """The next state, the reward of each agent, and whether the episode has terminated (of the world).

        An action is an integer array (`Discrete`), or a tuple with an array for each component.
        """

    @abstractmethod
    def observe(self, state: Any) -> Any:
        """The features of each agent's observation, as a sequence of arrays."""

    def active(self, state: Any) -> Any:
        """Which agents are still in the game (None: all, always). The others do not learn or count."""
        return None

    def action_mask(self, state: Any) -> Any:
        """For each choice of each discrete action component, whether it is allowed now (None: all)."""
        return None

    def next_episode(self, ended: Any, fresh: Any) -> Any:
        """The first state of an episode that follows another: `fresh`, as `reset` returned it, unless something is
        carried over from the last state of the one that ended (such as the level of a curriculum).

        It is computed in every step for all worlds, and used where an episode has ended. Where that was because
        a number was not finite, `ended` still holds that number.
        """
        return fresh

    def tables(self, types: ArrayTypes) -> Any:
        """Arrays on the device that the rules read beside the state, such as a map: a list or dictionary of them.

        Called once, before anything else. The rules find them through `self`; returning them tells the system to hand
        them to the compiled step, which would otherwise not know that it depends on them.
        """
        return ()

    def report(self, state: Any) -> Mapping[str, Any]:
        """Named quantities of the world at the end of an episode, averaged into the run's metrics."""
        return {}

    def left_out(self, state: Any) -> Mapping[str, Any]:
        """How often this episode something was left out that belongs to the world, by name: reported like the rest, as
        `NAME_left_out`, and warned of where it is not 0. For engines below a world's own rules.
        """
        return {}

    def draw(self, state: Mapping[str, np.ndarray]) -> Picture | None:
        """What one world looks like, for films (None: there is nothing to see, or a robot's model says it).

        Args:
            state: of a single world, as `Worlds.get_state` names and shapes it: a quantity of the world is `[1]` (or
                `[components, 1]`), one of the agents `[agents]`, in the order of the groups. `step` is always there.
        """
        return None

    def for_evaluation(self) -> Env:
        """The world in which policies are evaluated and ranked: this one, unless they must be judged by something that
        training never sees, such as the prices of later years."""
        return self

    def bare(self, by_group: Mapping[str, Any]) -> Any:
        """With a single group its value, else all of them by name."""
        return by_group if len(self.groups) > 1 else next(iter(by_group.values()))

    def group(self, name: str) -> Group:
        return next(g for g in self.groups if g.name == name)


def describe_env(env_class: type[Env]) -> str:
    """The first line of a world's docstring."""
    return (inspect.getdoc(env_class) or "").partition("\n")[0]


STEP_FIELD = "step"
"""The field of a state that counts the steps of the episode, if a state has it. It shows the clock's counter: it is
none of the state's own arrays, and set wherever a state is handed to the rules."""


@dataclasses.dataclass(frozen=True)
class Leaf:
    """Which array of a state: its field, its group (of a quantity of agents), its number (within a tuple)."""

    field: str
    group: str | None
    number: int | None

    @property
    def name(self) -> str:
        """Such as `goal`, `qpos/3` or `position/wolf`."""
        return "/".join(str(part) for part in (self.field, self.group, self.number) if part is not None)


def state_leaves(state: Any) -> Iterator[tuple[Leaf, Any]]:
    """The arrays of a state in a fixed order, without the step counter."""
    for field in dataclasses.fields(state):
        if field.name == STEP_FIELD:
            continue
        value = getattr(state, field.name)
        for group, part in value.items() if isinstance(value, Mapping) else [(None, value)]:
            several = isinstance(part, list | tuple)
            for number, leaf in enumerate(part if several else [part]):
                yield Leaf(field.name, group, number if several else None), leaf


def with_leaves(state: Any, leaves: Iterator[Any]) -> Any:
    """A state of the same form with other arrays, taken in the order of `state_leaves`."""

    def rebuild(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {group: rebuild(part) for group, part in value.items()}
        if isinstance(value, list | tuple):
            return tuple(next(leaves) for _ in value)
        return next(leaves)

    names = [f.name for f in dataclasses.fields(state) if f.name != STEP_FIELD]
    return dataclasses.replace(state, **{name: rebuild(getattr(state, name)) for name in names})


def with_step(state: Any, step: Any) -> Any:
    """The state with its step counter, if it has one."""
    has_counter = any(field.name == STEP_FIELD for field in dataclasses.fields(state))
    return dataclasses.replace(state, **{STEP_FIELD: step}) if has_counter else state
