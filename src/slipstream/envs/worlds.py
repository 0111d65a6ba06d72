"""N copies of a world, stepped together: what `slipstream.make` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import drjit as dr
import jax
import jax.numpy as jnp
import numpy as np

from slipstream.arrays import array_types
from slipstream.envs.actions import check_action, sample_action
from slipstream.envs.compiled import CompiledWorlds
from slipstream.envs.env import Env, Group
from slipstream.envs.scalar import ScalarWorlds
from slipstream.envs.store import Store
from slipstream.spaces import Box, Space


class Step(NamedTuple):
    """What a step returns, by group name; bare arrays when there is a single group.

    `observation` is what the next action is chosen from: where an episode ended, the first observation of the next
    one. `final_observation` is the observation after the step, before any reset.
    """

    observation: Any
    """`[features, lanes]`"""
    reward: Any
    """`[lanes]`"""
    terminated: Any
    """`[lanes]`"""
    truncated: Any
    """`[lanes]`"""
    final_observation: Any
    """`[features, lanes]`"""


@dataclass(frozen=True)
class EpisodeStatistics:
    """Means over the episodes that ended."""

    episodes: int
    length: float
    """Mean number of steps; NaN without an episode, like the means below."""
    returns: dict[str, float]
    """By group: the mean over episodes of the return, averaged over the agents of the group."""
    return_std: dict[str, float]
    report: dict[str, float]
    """What the world itself reports at the end of an episode (`Env.report`)."""
    broken: int
    """How many worlds were reset because their state was not finite."""


SUMS = ("episodes", "length_sum", "return_sum", "return_square_sum", "report_sum", "broken")


class Worlds:
    """`num_worlds` independent copies of an `Env`.

    The lane of an agent is `world * group_size + agent`; lanes are the last axis of every array. Arrays that a step
    returns are views of memory that the kernel wrote, and stay valid for as long as they are held.
    """

    def __init__(self, env: Env, num_worlds: int = 1024, seed: int = 0, backend: str = "auto"):
        _check_groups(env)
        if not isinstance(num_worlds, int) or num_worlds < 1:
            raise ValueError(f"num_worlds must be a positive whole number, got {num_worlds!r}.")
        self.env, self.num_worlds, self.seed = env, num_worlds, int(seed)
        self.types = array_types(backend)
        self.backend = self.types.backend
        engine = CompiledWorlds if self.types.compiled else ScalarWorlds
        self.engine: Any = engine(env, self.types, num_worlds, self.seed & 0xFFFFFFFF)
        self._samples = 0

    # What agents see and do.

    @property
    def groups(self) -> tuple[Group, ...]:
        return self.env.groups

    @property
    def observation_spaces(self) -> dict[str, Box]:
        return {g.name: g.observation for g in self.groups}

    @property
    def action_spaces(self) -> dict[str, Space]:
        return {g.name: g.action for g in self.groups}

    @property
    def observation_space(self) -> Box:
        return self.env.bare(self.observation_spaces)

    @property
    def action_space(self) -> Space:
        return self.env.bare(self.action_spaces)

    def lanes(self, group: str) -> int:
        return self.num_worlds * self.env.group(group).size

    # Running.

    def reset(self, seed: int | None = None) -> Any:
        """Begin a new episode in every world and return its observation, by group.

        With a seed, the whole history starts anew: the same seed gives the same bits again.
        """
        if seed is not None:
            self.__init__(self.env, self.num_worlds, seed, self.backend)
        else:
            self.engine.reset()
        return self.observe()

    def observe(self) -> Any:
        """The observation of the current state, by group."""
        return self.env.bare(self._choice_inputs("observation"))

    def active(self) -> Any:
        """Which agents are in the game now, by group; empty if the world does not say."""
        return self._choice_inputs("active")

    def action_mask(self) -> Any:
        """Which choices are allowed now, by group, `[choices, lanes]`; empty if the world does not say."""
        if isinstance(self.engine, CompiledWorlds) and not any(x.mask_size for x in self.engine.layouts):
            return {}  # spares every call of `sample_actions` an observation
        return self._choice_inputs("action_mask")

    def _choice_inputs(self, kind: str) -> dict[str, jax.Array]:
        if isinstance(self.engine, ScalarWorlds):
            rows = self.engine.observe()
            return {n.partition("/")[2]: jnp.asarray(v) for n, v in rows.items() if n.startswith(kind + "/")}
        store = self.new_store(1)
        self.engine.observe(store, 0)
        return {name: buffer.only_slot for name, buffer in getattr(store, kind).items()}

    def step(self, actions: Any) -> Step:
        """Step every world once; worlds whose episode ends begin a new one in the same step.

        Args:
            actions: by group, or bare with a single group: `[components, lanes]`, or `[lanes]` for one component.
        """
        return self._as_step(self.step_rows(actions))

    def step_rows(self, actions: Any) -> dict[str, jax.Array]:
        """What `step` does, with everything it yields named and shaped like one slot of a `Store`."""
        checked = self.checked_actions(actions)
        if isinstance(self.engine, ScalarWorlds):
            rows = self.engine.step({name: np.asarray(a) for name, a in checked.items()})
            return {name: jnp.asarray(value) for name, value in rows.items()}
        store = self.new_store(1)
        self.engine.step(store, 0, checked, full_final=True)
        dr.sync_thread()
        return {name: buffer.only_slot for name, buffer in store.named_buffers().items()}

    def _as_step(self, rows: dict[str, jax.Array]) -> Step:
        def each(kind: str) -> Any:
            return self.env.bare({g.name: rows[f"{kind}/{g.name}"] for g in self.groups})

        def lanes_of(g: Group, flags: jax.Array) -> jax.Array:
            return flags if flags.shape[-1] == self.lanes(g.name) else jnp.repeat(flags, g.size)

        terminated = {g.name: lanes_of(g, rows[f"terminated/{g.name}"]) for g in self.groups}
        truncated = {g.name: lanes_of(g, rows["truncated"]) for g in self.groups}
        return Step(
            each("observation"),
            each("reward"),
            self.env.bare(terminated),
            self.env.bare(truncated),
            each("final_observation"),
        )

    def at_start(self) -> np.ndarray:
        """Which worlds are at the beginning of an episode: after a step, those whose episode ended in it."""
        return self.engine.clock_arrays("step")["step"] == 0

    def new_store(self, slots: int) -> Store:
        """A store that `step_into` can write (compiled backends only)."""
        return Store(self.types, self.engine.layouts, self.num_worlds, slots)

    def step_into(self, store: Store, slot: int, actions: dict[str, jax.Array]) -> None:
        """Step every world and write the outcome into a slot, without any check of the actions.

        Returns when the kernel has finished, so that JAX may read the slot.
        """
        self.engine.step(store, slot, actions, full_final=False)
        dr.sync_thread()

    def rollout_random(self, num_steps: int) -> None:
        """Take steps with random actions drawn inside the kernel: for measuring the simulator alone.

        Everything a step yields is computed and written to memory (observations, rewards, flags, resets, statistics),
        but not laid out in a store.
        """
        if num_steps < 1:
            raise ValueError(f"num_steps must be at least 1, got {num_steps}.")
        if isinstance(self.engine, ScalarWorlds):
            for _ in range(num_steps):
                self.step(self.sample_actions())
            return
        for _ in range(num_steps):
            self.engine.step_random()
        dr.sync_thread()

    def sample_actions(self) -> Any:
        """Random actions for every agent, by group, that respect the action masks."""
        key = jax.random.fold_in(jax.random.key(self.seed & 0xFFFFFFFF), self._samples)
        self._samples += 1
        masks = self.action_mask()
        keys = jax.random.split(key, len(self.groups))
        sampled = {
            g.name: sample_action(k, g, self.lanes(g.name), masks.get(g.name)) for k, g in zip(keys, self.groups)
        }
        return self.env.bare(sampled)

    # State.

    @property
    def state_fields(self) -> list[str]:
        """The names that `get_state` returns and `set_state` takes."""
        names = list(dict.fromkeys(field for field, _ in self.engine.fields))
        return names if "step" in names else [*names, "step"]

    @property
    def _agent_fields(self) -> set[str]:
        return {field for field, group in self.engine.fields if group is not None}

    def get_state(self) -> dict[str, np.ndarray]:
        """The state as named NumPy arrays, lanes last.

        A quantity of the world is `[worlds]` (or `[components, worlds]`); one of the agents `[worlds * agents]`, the
        agents of a world in the order of the groups. `step` counts the steps of the episode.
        """
        parts: dict[str, list[tuple[str | None, np.ndarray]]] = {}
        for (field, group), array in zip(self.engine.fields, self.engine.state_arrays()):
            parts.setdefault(field, []).append((group, array))
        state = {field: self._join(arrays) for field, arrays in parts.items()}
        state["step"] = self.engine.clock_arrays()["step"]
        return state

    def _join(self, parts: list[tuple[str | None, np.ndarray]]) -> np.ndarray:
        if parts[0][0] is None:
            return parts[0][1] if len(parts) == 1 else np.stack([a for _, a in parts])
        blocks = [array.reshape(self.num_worlds, -1) for _, array in parts]
        return np.concatenate(blocks, axis=1).reshape(-1)

    def set_state(self, **fields: Any) -> None:
        """Put worlds into a state: arrays named and shaped as `get_state` returns them (others stay as they are).

        A quantity of the agents may also be given as `[worlds, agents]`.
        """
        current = self.get_state()
        for name, value in fields.items():
            if name not in current:
                raise ValueError(f"Unknown state field {name!r}; the fields are {', '.join(self.state_fields)}.")
            given = np.asarray(value)
            shapes = [current[name].shape]
            if name in self._agent_fields:
                shapes.append((self.num_worlds, current[name].size // self.num_worlds))
            if given.shape not in shapes:
                raise ValueError(
                    f"State field {name!r} must have shape {list(current[name].shape)}, got {list(given.shape)}."
                )
            current[name] = given.reshape(current[name].shape).astype(current[name].dtype)
        position: dict[str, int] = {}
        leaves = []
        for field, group in self.engine.fields:
            start = position.get(field, 0)
            leaf, position[field] = self._part(current[field], field, group, start)
            leaves.append(leaf)
        self.engine.set_state_arrays(leaves)
        self.engine.set_clock({"step": current["step"]})

    def _part(self, array: np.ndarray, field: str, group: str | None, start: int) -> tuple[np.ndarray, int]:
        """One leaf of a joined field, and where the next one starts."""
        if group is None:
            return (array if array.ndim == 1 else array[start]), start + 1
        size = self.env.group(group).size
        return array.reshape(self.num_worlds, -1)[:, start : start + size].reshape(-1), start + size

    def save(self) -> dict[str, np.ndarray]:
        """Everything that decides how the worlds go on, as named arrays."""
        leaves = {f"leaf/{i}": array for i, array in enumerate(self.engine.state_arrays())}
        clock = {f"clock/{name}": array for name, array in self.engine.clock_arrays().items()}
        return {**leaves, **clock, "age": np.array([self.engine.age, self._samples], np.int64)}

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        """Go on exactly where `save` was called."""
        self.engine.set_state_arrays([saved[f"leaf/{i}"] for i in range(len(self.engine.fields))])
        self.engine.set_clock({n.partition("/")[2]: v for n, v in saved.items() if n.startswith("clock/")})
        self.engine.age, self._samples = (int(v) for v in saved["age"])

    # Statistics.

    @property
    def episode_statistics(self) -> EpisodeStatistics:
        """Of the episodes that ended since the worlds were made, or since `take_statistics`."""
        sums = {n: float(v.astype(np.float64).sum()) for n, v in self.engine.clock_arrays().items()}
        count = sums["episodes"]

        def mean(name: str) -> float:
            return sums[name] / count if count else float("nan")

        returns = {g.name: mean(f"return_sum/{g.name}") for g in self.groups}
        squares = {g.name: mean(f"return_square_sum/{g.name}") for g in self.groups}
        return EpisodeStatistics(
            episodes=int(count),
            length=mean("length_sum"),
            returns=returns,
            return_std={n: float(np.sqrt(max(squares[n] - r * r, 0.0))) for n, r in returns.items()},
            report={n.partition("/")[2]: mean(n) for n in sums if n.startswith("report_sum/")},
            broken=int(sums["broken"]),
        )

    def take_statistics(self) -> EpisodeStatistics:
        """The statistics so far; they then begin anew."""
        statistics = self.episode_statistics
        arrays = self.engine.clock_arrays()
        self.engine.set_clock({n: np.zeros_like(v) for n, v in arrays.items() if n.partition("/")[0] in SUMS})
        return statistics

    # Checking what comes in.

    def checked_actions(self, actions: Any) -> dict[str, jax.Array]:
        """The actions by group, `[components, lanes]`, or an error that says what is wrong with them."""
        names = [g.name for g in self.groups]
        if not isinstance(actions, Mapping):
            if len(names) > 1:
                raise ValueError(f"Actions must be a dictionary with the groups {names}, got {type(actions).__name__}.")
            actions = {names[0]: actions}
        if set(actions) != set(names):
            raise ValueError(f"Actions must be given for the groups {names}, got {sorted(actions)}.")
        return {g.name: check_action(g, actions[g.name], self.lanes(g.name)) for g in self.groups}


def _check_groups(env: Env) -> None:
    if not getattr(env, "groups", None):
        raise ValueError(f"{type(env).__name__} declares no groups; set groups = (Group(...),).")
    names = [g.name for g in env.groups]
    if len(set(names)) != len(names):
        raise ValueError(f"Group names must differ, got {names}.")
    if env.max_steps is not None and env.max_steps < 1:
        raise ValueError(f"max_steps must be positive or None, got {env.max_steps}.")
