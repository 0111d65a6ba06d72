"""N copies of a world, stepped together: what `slipstream.make` returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from slipstream.arrays import array_types
from slipstream.envs.actions import check_action, sample_action
from slipstream.envs.clock import is_total, staggered_steps
from slipstream.envs.compiled import CompiledWorlds
from slipstream.envs.engine import Engine
from slipstream.envs.env import STEP_FIELD, Env, Group
from slipstream.envs.exchange import join_fields, split_fields, with_changes
from slipstream.envs.extras import gymnasium_extra
from slipstream.envs.scalar import ScalarWorlds
from slipstream.envs.statistics import EpisodeStatistics, EpisodeTotals
from slipstream.envs.store import Store, check_fit
from slipstream.spaces import Box, Space, describe

if TYPE_CHECKING:
    from slipstream.envs.adapters.parallel_env import PettingZooWorld
    from slipstream.envs.adapters.stable_baselines3 import StableBaselines3Worlds
    from slipstream.envs.adapters.vector_env import GymnasiumWorlds


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


class Worlds:
    """`num_worlds` independent copies of an `Env`.

    The lane of an agent is `world * group_size + agent`; lanes are the last axis of every array. Arrays that a step
    returns are views of memory that the kernel wrote, and stay valid for as long as they are held.
    """

    def __init__(
        self,
        env: Env,
        num_worlds: int = 1024,
        seed: int = 0,
        backend: str = "auto",
        *,
        first_world: int = 0,
        stagger: bool = False,
    ):
        """Args:
        env: the rules.
        num_worlds: how many copies.
        seed: the same seed gives the same bits.
        backend: `auto`, `llvm`, `cuda`, or `scalar` for plain Python.
        first_world: the number of the first world, for worlds that are a part of more, in several processes: all that
            is random depends on the seed and a world's number.
        stagger: begin as if the worlds had taken different numbers of steps already, so that their first episodes reach
            the time limit one after the other and not all at once. (A plain `reset` begins at step 0.)
        """
        _check_groups(env)
        if not isinstance(num_worlds, int) or isinstance(num_worlds, bool) or num_worlds < 1:
            raise ValueError(f"num_worlds must be a positive whole number, got {num_worlds!r}.")
        _check_first_world(first_world, num_worlds, env)
        if stagger and env.max_steps is None:
            raise ValueError(f"stagger needs a time limit, and {type(env).__name__} has none (max_steps).")
        self.env, self.num_worlds, self.seed, self.first_world = env, num_worlds, _whole_seed(seed), first_world
        self.types = array_types(backend)
        self.backend = self.types.backend
        if env.engine is not None and not self.types.compiled:
            raise ValueError(f"{type(env).__name__} is run by another library: it has no form in plain Python.")
        engine = env.engine or (CompiledWorlds if self.types.compiled else ScalarWorlds)
        self.engine: Engine = engine(env, self.types, num_worlds, self.seed & 0xFFFFFFFF, first_world)
        self.stagger = stagger
        self._begin_history()

    def _begin_history(self) -> None:
        self._samples = 0
        if self.stagger and self.env.max_steps is not None:
            self.engine.set_clock({STEP_FIELD: staggered_steps(self.first_world, self.num_worlds, self.env.max_steps)})

    def __repr__(self) -> str:
        groups = (f"{g.size} {g.name} ({describe(g.observation)} -> {describe(g.action)})" for g in self.groups)
        return f"<{self.num_worlds} worlds of {type(self.env).__name__} on {self.backend}: {', '.join(groups)}>"

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
        if seed is None:
            self.engine.reset()
        else:
            self.seed = _whole_seed(seed)
            self.engine.restart(self.seed & 0xFFFFFFFF)
            self._begin_history()
        return self.observe()

    def observe(self) -> Any:
        """The observation of the current state, by group."""
        return self.env.bare(self._choice_inputs("observation"))

    def active(self) -> Any:
        """Which agents are in the game now, by group; empty if the world does not say."""
        return self._choice_inputs("active")

    def action_mask(self) -> Any:
        """Which choices are allowed now, by group, `[choices, lanes]`; empty if the world does not say."""
        if not any(layout.mask_size for layout in self.engine.layouts):
            return {}  # spares every call of `sample_actions` an observation
        return self._choice_inputs("action_mask")

    def _choice_inputs(self, kind: str) -> dict[str, jax.Array]:
        store = self.new_store(1)
        self.engine.observe(store, 0)
        buffers = [b for b in store.named_buffers().values() if b.place.kind.name == kind]
        return {str(b.place.group): b.only_slot for b in buffers}

    def step(self, actions: Any) -> Step:
        """Step every world once; worlds whose episode ends begin a new one in the same step.

        Args:
            actions: by group, or bare with a single group: `[components, lanes]`, or `[lanes]` for one component.
        """
        return self._as_step(self.step_rows(actions))

    def step_rows(self, actions: Any) -> dict[str, jax.Array]:
        """What `step` does, with everything it yields named and shaped like one slot of a `Store`."""
        checked = self.checked_actions(actions)
        # New memory every time: what a step has returned, and JAX may still compute with, is never written again.
        store = self.new_store(1)
        self.engine.step(store, 0, checked, full_final=True)
        return {name: buffer.only_slot for name, buffer in store.named_buffers().items()}

    def _as_step(self, rows: dict[str, jax.Array]) -> Step:
        def each(kind: str) -> Any:
            return self.env.bare({g.name: rows[f"{kind}/{g.name}"] for g in self.groups})

        truncated = rows["truncated"]
        by_group = {g.name: truncated if g.size == 1 else jnp.repeat(truncated, g.size) for g in self.groups}
        return Step(
            each("observation"),
            each("reward"),
            each("terminated"),
            self.env.bare(by_group),
            each("final_observation"),
        )

    def new_store(self, slots: int) -> Store:
        """A store that `observe_into` and `step_into` can write."""
        return Store(self.types, self.engine.layouts, self.num_worlds, slots)

    def store_bytes(self, slots: int) -> int:
        """How much memory `new_store` would take."""
        return Store.bytes_needed(self.engine.layouts, self.num_worlds, slots)

    def observe_into(self, store: Store, slot: int) -> None:
        """Write what an action is chosen from now into a slot: observations, who is active, masks."""
        self.engine.observe(store, slot)

    def step_into(self, store: Store, slot: int, actions: Mapping[str, jax.Array]) -> None:
        """Step every world and write the outcome into a slot, without any check of the actions.

        Returns when the kernel has finished, so that JAX may read the slot.
        """
        self.engine.step(store, slot, actions, full_final=False)

    def rollout_random(self, num_steps: int) -> None:
        """Take steps with random actions drawn inside the kernel: for measuring the simulator alone.

        Everything a step yields is computed and written to memory (observations, rewards, flags, resets, statistics),
        but not laid out in a store.
        """
        if num_steps < 1:
            raise ValueError(f"num_steps must be at least 1, got {num_steps}.")
        self.engine.step_random(num_steps)

    def sample_actions(self) -> Any:
        """Random actions for every agent, by group, that respect the action masks."""
        key = jax.random.fold_in(jax.random.key(self.seed & 0xFFFFFFFF), self._samples)
        self._samples += 1
        masks = self.action_mask()
        keys = jax.random.split(key, len(self.groups))
        first = jnp.uint32(self.first_world)
        sampled = {
            g.name: sample_action(k, g, self.num_worlds, first, masks.get(g.name)) for k, g in zip(keys, self.groups)
        }
        return self.env.bare(sampled)

    # For other libraries. (They and their adapters are imported when they are asked for.)

    def as_gymnasium(self) -> GymnasiumWorlds:
        """These worlds as a `gymnasium.vector.VectorEnv`: `[lanes, features]`, one environment for each agent."""
        with gymnasium_extra("as_gymnasium"):
            from slipstream.envs.adapters.vector_env import GymnasiumWorlds
        return GymnasiumWorlds(self)

    def as_pettingzoo(self) -> PettingZooWorld:
        """This world (there must be one) as a `pettingzoo.ParallelEnv`, with an agent for each of its agents."""
        with gymnasium_extra("as_pettingzoo"):
            from slipstream.envs.adapters.parallel_env import PettingZooWorld
        return PettingZooWorld(self)

    def as_stable_baselines3(self) -> StableBaselines3Worlds:
        """These worlds as a `VecEnv` of Stable-Baselines3, which need not be installed to make one."""
        with gymnasium_extra("as_stable_baselines3"):
            from slipstream.envs.adapters.stable_baselines3 import StableBaselines3Worlds
        return StableBaselines3Worlds(self)

    # State.

    @property
    def state_fields(self) -> list[str]:
        """The names that `get_state` returns and `set_state` takes."""
        return [*dict.fromkeys(leaf.field for leaf in self.engine.leaves), STEP_FIELD]

    def get_state(self) -> dict[str, np.ndarray]:
        """The state as named NumPy arrays, lanes last.

        A quantity of the world is `[worlds]` (or `[components, worlds]`); one of the agents `[worlds * agents]`, the
        agents of a world in the order of the groups. `step` counts the steps of the episode.
        """
        state = join_fields(self.engine.leaves, self.engine.state_arrays(), self.num_worlds)
        return state | self.engine.clock_arrays(STEP_FIELD)

    def set_state(self, **fields: Any) -> None:
        """Put worlds into a state: arrays named and shaped as `get_state` returns them (others stay as they are).

        A quantity of the agents may also be given as `[worlds, agents]`.
        """
        state = with_changes(self.get_state(), fields, self.engine.leaves, self.num_worlds)
        self.engine.set_clock({STEP_FIELD: state.pop(STEP_FIELD)})
        sizes = {g.name: g.size for g in self.groups}
        self.engine.set_state_arrays(split_fields(self.engine.leaves, state, self.num_worlds, sizes))

    def save(self) -> dict[str, np.ndarray]:
        """Everything that decides how the worlds go on, as named arrays.

        The arrays of the state are named by their field, group and number (`state/qpos/3`, `state/position/wolf`),
        the counters and sums `clock/...`.
        """
        state = {f"state/{leaf.name}": a for leaf, a in zip(self.engine.leaves, self.engine.state_arrays())}
        clock = {f"clock/{name}": array for name, array in self.engine.clock_arrays().items()}
        ages = {"age": self.engine.age, "samples": self._samples}
        return state | clock | {name: np.array([value], np.int64) for name, value in ages.items()}

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        """Go on exactly where `save` was called (in worlds of the same kind, number and options)."""
        check_fit(saved, {name: array.shape for name, array in self.save().items()}, "state of the worlds")
        self.engine.set_state_arrays([saved[f"state/{leaf.name}"] for leaf in self.engine.leaves])
        self.engine.set_clock({n.removeprefix("clock/"): v for n, v in saved.items() if n.startswith("clock/")})
        self.engine.age, self._samples = int(saved["age"][0]), int(saved["samples"][0])

    # Statistics.

    def episode_totals(self) -> EpisodeTotals:
        """Sums over the episodes that have ended since the worlds were made (or got a new seed).

        Reading them changes nothing: `worlds.episode_totals().since(earlier)` tells how the episodes went that ended
        after `earlier` was read.
        """
        totals = [name for name in self.engine.clock_names if is_total(name)]
        return EpisodeTotals.of(self.engine.clock_arrays(*totals))

    def report_sums(self) -> dict[str, np.ndarray]:
        """What each world has reported (`Env.report`), summed up over its episodes that have ended: `[worlds]` each."""
        names = [name for name in self.engine.clock_names if name.startswith("report_sum/")]
        return {n.partition("/")[2]: sums for n, sums in self.engine.clock_arrays(*names).items()} if names else {}

    @property
    def episode_statistics(self) -> EpisodeStatistics:
        """Of the episodes that have ended since the worlds were made (or got a new seed)."""
        return self.episode_totals().since(None)

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


def _whole_seed(seed: Any) -> int:
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool):
        raise ValueError(f"The seed must be a whole number, got {seed!r}.")
    return int(seed)


def _check_first_world(first_world: int, num_worlds: int, env: Env) -> None:
    if not isinstance(first_world, int) or isinstance(first_world, bool) or first_world < 0:
        raise ValueError(f"first_world must be 0 or a positive whole number, got {first_world!r}.")
    last = (first_world + num_worlds) * max(g.size for g in env.groups)
    if last > 2**32:
        raise ValueError(
            f"World {first_world + num_worlds - 1} has agents beyond the number 2^32, from which on random numbers "
            "would repeat: take fewer worlds, or a lower first_world."
        )
