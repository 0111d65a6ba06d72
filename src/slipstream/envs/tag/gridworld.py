"""Tag on a grid: many taggers chase one runner."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import drjit as dr

from slipstream.envs.drawing import BLUE, GREY, INK, PAPER, RED, Circle, Line, Picture, Text
from slipstream.envs.env import Env, Group, Int
from slipstream.spaces import Box, Discrete

# Stay, +x, -x, +y, -y.
STAY, RIGHT, LEFT, UP, DOWN = range(5)


@dataclass
class State:
    loc_x: dict[str, Int]
    loc_y: dict[str, Int]
    step: Int


class TagGridworld(Env):
    """Taggers chase one runner on a square grid."""

    def __init__(
        self,
        num_taggers: int = 10,
        grid_length: int = 10,
        episode_length: int = 100,
        full_observation: bool = False,
        wall_hit_penalty: float = 0.1,
        tag_reward_for_tagger: float = 10.0,
        tag_penalty_for_runner: float = 2.0,
        step_cost_for_tagger: float = 0.01,
    ):
        """Args:
        num_taggers: how many chase the runner.
        grid_length: coordinates are 0 .. grid_length, inclusive.
        episode_length: steps until an episode is truncated.
        full_observation: see every agent, instead of oneself and the nearest opponent.
        wall_hit_penalty: what running into a wall costs.
        tag_reward_for_tagger: what every tagger gets for a tag.
        tag_penalty_for_runner: what the runner pays for it.
        step_cost_for_tagger: what a step without a tag costs a tagger, and earns the runner.
        """
        if grid_length >= 2**14:
            raise ValueError(f"grid_length must be below {2**14}, got {grid_length}.")
        _check_positive(num_taggers=num_taggers, grid_length=grid_length, episode_length=episode_length)
        self.max_steps = self.episode_length = episode_length
        self.length = grid_length
        self.bits = grid_length.bit_length()
        self.full_observation = full_observation
        self.wall_hit_penalty = wall_hit_penalty
        self.tag_reward_for_tagger = tag_reward_for_tagger
        self.tag_penalty_for_runner = tag_penalty_for_runner
        self.step_cost_for_tagger = step_cost_for_tagger
        seen = Box(4 * (num_taggers + 1) + 1 if full_observation else 6)
        self.tagger = Group("tagger", seen, Discrete(5), num_taggers)
        self.runner = Group("runner", seen, Discrete(5), 1)
        self.groups = (self.tagger, self.runner)

    def reset(self, rng):
        centre = self.length // 2
        start = {"tagger": centre, "runner": 0}
        return State(loc_x=dict(start), loc_y=dict(start), step=0)

    def step(self, state, action, rng):
        moved = {name: self._move(state.loc_x[name], state.loc_y[name], move) for name, move in action.items()}
        places = {name: word >> 1 for name, word in moved.items()}
        hit = {name: (word & 1) != 0 for name, word in moved.items()}
        state = State(
            {name: self._x(place) for name, place in places.items()},
            {name: self._y(place) for name, place in places.items()},
            state.step,
        )
        apart = self._squared_distance(state)
        # Computed in the same pass as the search, instead of once more after it.
        dr.schedule(moved)
        nearest, _ = self._lowest(apart, state)
        tagged = nearest == 0
        tagger = dr.select(tagged, self.tag_reward_for_tagger, -self.step_cost_for_tagger)
        runner = dr.select(tagged, -self.tag_penalty_for_runner, self.step_cost_for_tagger)
        penalty = {name: dr.select(h, self.wall_hit_penalty, 0.0) for name, h in hit.items()}
        reward = {
            "tagger": self.tagger.spread(tagger) - penalty["tagger"],
            "runner": runner - penalty["runner"],
        }
        return state, reward, tagged

    def _move(self, x, y, move):
        """The new place and whether a wall was hit, in one word: a third of the memory of three arrays."""
        wanted_x = x + dr.select(move == RIGHT, 1, 0) - dr.select(move == LEFT, 1, 0)
        wanted_y = y + dr.select(move == UP, 1, 0) - dr.select(move == DOWN, 1, 0)
        x, y = dr.clip(wanted_x, 0, self.length), dr.clip(wanted_y, 0, self.length)
        return self._place(x, y) * 2 + dr.select((x != wanted_x) | (y != wanted_y), 1, 0)

    def _place(self, x, y):
        return x + y * (1 << self.bits)

    def _x(self, place):
        return place & ((1 << self.bits) - 1)

    def _y(self, place):
        return place >> self.bits

    def _lowest(self, apart, state):
        """The squared distance of the tagger nearest to the runner, and its place."""
        place = self._place(state.loc_x["tagger"], state.loc_y["tagger"])
        return self.tagger.lowest(apart, 2 * self.length**2 + 1, place, 1 << 2 * self.bits)

    def _squared_distance(self, state):
        """Between each tagger and the runner."""
        dx = state.loc_x["tagger"] - self.tagger.spread(state.loc_x["runner"])
        dy = state.loc_y["tagger"] - self.tagger.spread(state.loc_y["runner"])
        return dx * dx + dy * dy

    def observe(self, state):
        return self._observe_all(state) if self.full_observation else self._observe_nearest(state)

    def _observe_nearest(self, state):
        x, y = ({g: self._unit(v) for g, v in axis.items()} for axis in (state.loc_x, state.loc_y))
        time = self._time(state)
        _, place = self._lowest(self._squared_distance(state), state)
        seen_x, seen_y = self._unit(self._x(place)), self._unit(self._y(place))
        runner_x, runner_y = self.tagger.spread(x["runner"]), self.tagger.spread(y["runner"])
        return {
            "tagger": (x["tagger"], y["tagger"], runner_x, runner_y, 0.0, self.tagger.spread(time)),
            "runner": (x["runner"], y["runner"], seen_x, seen_y, 1.0, time),
        }

    def _observe_all(self, state):
        n = self.tagger.size
        places = []
        for axis in (state.loc_x, state.loc_y):
            taggers = [self.tagger.pick(axis["tagger"], i) for i in range(n)]
            places += [self._unit(v) for v in [*taggers, axis["runner"]]]
        types = [0.0] * n + [1.0]
        time = self._time(state)
        me = self.tagger.index(time)
        oneself = [dr.select(me == i, 1.0, 0.0) for i in range(n)] + [0.0]
        for_taggers = [self.tagger.spread(v) for v in places] + types + oneself + [self.tagger.spread(time)]
        for_runner = places + types + [0.0] * n + [1.0, time]
        return {"tagger": for_taggers, "runner": for_runner}

    def _unit(self, coordinate):
        return coordinate * (1.0 / self.length)

    def _time(self, state):
        return state.step * (1.0 / self.episode_length)

    def report(self, state):
        nearest, _ = self._lowest(self._squared_distance(state), state)
        return {"tagged": dr.select(nearest == 0, 1.0, 0.0)}

    def draw(self, state):
        *taggers, runner = zip(state["loc_x"].tolist(), state["loc_y"].tolist())
        low, high = -0.5, self.length + 0.5
        edges = [low + i for i in range(self.length + 2)]
        grid = [Line(((low, at), (high, at)), 0.02, GREY) for at in edges]
        grid += [Line(((at, low), (at, high)), 0.02, GREY) for at in edges]
        crowds = Counter(taggers)
        counts = [Text(place, str(count), 0.45, PAPER) for place, count in crowds.items() if count > 1]
        shapes = [
            *grid,
            *(Circle(place, 0.34, RED) for place in crowds),
            *counts,
            Circle(runner, 0.34, BLUE),
            Text((low, high + 0.5), f"step {int(state['step'][0])}", 0.55, INK, "left"),
        ]
        return Picture(shapes, bounds=(low - 0.3, low - 0.3, high + 0.3, high + 0.95))


def _check_positive(**counts: int) -> None:
    for name, value in counts.items():
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be a positive whole number, got {value!r}.")
