"""Parallel environments of PettingZoo that one process steps, one after another: all of a run's, or a part of them.

Where there are several such processes, each is started as `python -m slipstream.pettingzoo_part` and imports neither
JAX nor Dr.Jit (unless the environment does). All it reads and writes lies in shared memory; a byte on a socket says
that there is something to do, and another one that it is done.
"""

from __future__ import annotations

import importlib
import re
import socket
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from slipstream.child_process import Job, run_child
from slipstream.gymnasium_spaces import Act, Observe, action_of, observation_of
from slipstream.names import UnknownEnvironment
from slipstream.shared_memory import Block, fence
from slipstream.spaces import Box, Space

BEGIN, STEP = 0, 1
"""What a part may be asked for."""


def maker_named(name: str) -> Callable[..., Any]:
    """What makes the environment `MODULE` or `MODULE:FUNCTION` (by default `parallel_env`)."""
    where, _, function = name.partition(":")
    try:
        module: Any = importlib.import_module(where)
    except ModuleNotFoundError as error:
        raise UnknownEnvironment(
            f"pettingzoo:{name} cannot be made: there is no module {error.name!r}. Such a name is pettingzoo:MODULE, "
            "for example pettingzoo:mpe2.simple_tag_v3 (pip install mpe2)."
        ) from error
    maker = getattr(module, function or "parallel_env", None)
    if maker is None:
        raise UnknownEnvironment(f"{where} has no {function or 'parallel_env'}: it makes no parallel environment.")
    return maker


class Agents:
    """Who is in an environment, and how what they see and do is translated.

    Attributes:
        members: the agents of each group.
        spaces: by group, what one of its agents sees and does.
        observe_as: by agent.
        act_as: by agent.
    """

    def __init__(self, environment: Any):
        name = type(environment.unwrapped).__name__
        if not hasattr(environment, "possible_agents"):
            raise ValueError(f"{name} does not say who its agents are (possible_agents).")
        agents = environment.possible_agents
        sees = {a: observation_of(environment.observation_space(a), f"{name} ({a})") for a in agents}
        does = {a: action_of(environment.action_space(a), f"{name} ({a})") for a in agents}
        self.observe_as: dict[str, Observe] = {a: observe for a, (_, observe) in sees.items()}
        self.act_as: dict[str, Act] = {a: act for a, (_, act) in does.items()}
        self.members = _groups({a: (sees[a][0], does[a][0]) for a in agents})
        self.spaces: dict[str, tuple[Box, Space]] = {
            group: (sees[first][0], does[first][0]) for group, (first, *_) in self.members.items()
        }


def _groups(spaces: Mapping[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for agent in spaces:
        found.setdefault(re.sub(r"_?\d+$", "", agent) or agent, []).append(agent)
    groups: dict[str, list[str]] = {}
    for name, agents in found.items():
        alike = all(spaces[agent] == spaces[agents[0]] for agent in agents)
        groups |= {name: agents} if alike else {agent: [agent] for agent in agents}
    return groups


class Part:
    """Some of the worlds. It reads and writes their places in the arrays of all worlds:

    * the rows of a slot of a `Store`, by their names there,
    * `action/GROUP`, `[components, lanes]`, what is to be done,
    * `step` and `episode`, `[worlds]`, as the clock has them before a step or a beginning, and `seed`, `[1]`,
    * `given/GROUP`, `[worlds]`, the mean reward as the environment gave it, and `sound`, `[worlds]`, whether what it
      showed is finite.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        worlds: range,
        first_world: int,
        max_steps: int | None,
        arrays: Mapping[str, np.ndarray],
    ):
        """Args:
        make: makes an environment.
        worlds: which ones.
        first_world: what their numbers are counted from where random numbers are drawn.
        max_steps: a time limit beside the environment's own.
        arrays: of all worlds.
        """
        self._environments = {world: make() for world in worlds}
        self._agents = Agents(self._environments[worlds[0]])
        self._first_world, self._max_steps, self._arrays = first_world, max_steps, arrays

    def begin(self) -> None:
        """A new episode in every world."""
        for world in self._environments:
            self._begin(world, int(self._arrays["episode"][world]))

    def step(self) -> None:
        """Step every world; where an episode ends, the next one begins."""
        for world in self._environments:
            self._step(world)
        for world in self._environments:
            if self._arrays["done"][world]:
                self._begin(world, int(self._arrays["episode"][world]) + 1)

    def close(self) -> None:
        for environment in self._environments.values():
            environment.close()

    def _begin(self, world: int, episode: int) -> None:
        """The first observations of an episode, into the rows."""
        entropy = [int(self._arrays["seed"][0]), self._first_world + world, episode]
        seed = int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)
        seen, _ = self._environments[world].reset(seed=seed)
        self._show(world, "observation", seen)
        here = set(self._environments[world].agents)
        for agent, group, lane in self._lanes(world):
            self._arrays[f"active/{group}"][lane] = agent in here
        self._arrays["done"][world] = True

    def _lanes(self, world: int) -> list[tuple[str, str, int]]:
        """Every agent of a world, its group and its lane."""
        return [
            (agent, name, world * len(agents) + i)
            for name, agents in self._agents.members.items()
            for i, agent in enumerate(agents)
        ]

    def _show(self, world: int, kind: str, seen: Mapping[str, Any]) -> None:
        """Observations of a world, zeros for those who are gone."""
        for agent, group, lane in self._lanes(world):
            shown = self._agents.observe_as[agent](seen[agent]) if agent in seen else 0.0
            self._arrays[f"{kind}/{group}"][:, lane] = shown

    def _step(self, world: int) -> None:
        environment, rows, lanes = self._environments[world], self._arrays, self._lanes(world)
        before = set(environment.agents)
        chosen = {a: self._agents.act_as[a](self._action(g, lane)) for a, g, lane in lanes if a in before}
        seen, rewards, terminated, truncated, _ = environment.step(chosen)
        after = set(environment.agents)
        cut = self._max_steps is not None and rows["step"][world] + 1 >= self._max_steps
        over = not after or cut
        self._show(world, "final_observation", seen)
        finite = all(np.isfinite(rows[f"final_observation/{g}"][:, lane]).all() for _, g, lane in lanes)
        limit = cut or (over and any(truncated.get(a, False) and not terminated.get(a, False) for a in before))
        for group in self._agents.members:
            rows[f"given/{group}"][world] = 0.0
        for agent, group, lane in lanes:
            reward = float(rewards.get(agent, 0.0))
            rows[f"given/{group}"][world] += reward / len(self._agents.members[group])
            rows[f"reward/{group}"][lane] = reward if np.isfinite(reward) and finite else 0.0
            # Who leaves before the others, for whatever reason, is done: only a world as a whole is truncated.
            left = agent in before and agent not in after and not (over and truncated.get(agent, False))
            rows[f"terminated/{group}"][lane] = (terminated.get(agent, False) or left) or not finite
            rows[f"active/{group}"][lane] = agent in after
            observed = rows[f"final_observation/{group}"][:, lane]
            observed[...] = observed if finite else 0.0
            rows[f"observation/{group}"][:, lane] = observed
        rows["truncated"][world], rows["done"][world] = limit and finite, over or not finite
        rows["sound"][world] = finite

    def _action(self, group: str, lane: int) -> np.ndarray:
        """What an agent is to do, `[components]`."""
        action, space = self._arrays[f"action/{group}"][:, lane], self._agents.spaces[group][1]
        return np.clip(action, space.lows, space.highs) if isinstance(space, Box) else action


def work(job: Job) -> None:
    """Do what is asked for, until nobody is there to ask."""
    block, maker = Block.from_json(job["block"]), maker_named(job["name"])
    worlds = range(job["first"], job["last"])
    part = Part(lambda: maker(**job["options"]), worlds, job["first_world"], job["max_steps"], block.arrays)
    line = socket.socket(fileno=job["line"])
    answered = block["answered"][job["number"]]
    while line.recv(64):
        asked = block["asked"][0]
        fence()
        if answered[0] != asked:  # we may be woken twice
            (part.step if block["what"][0] == STEP else part.begin)()
            fence()
            answered[0] = asked
        line.send(b".")
    part.close()


if __name__ == "__main__":
    run_child(work)
