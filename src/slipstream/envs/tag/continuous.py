"""Tag in the plane: taggers chase runners, everybody steers by acceleration and turns."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import drjit as dr
import numpy as np

from slipstream.envs.drawing import BLUE, GREY, INK, RED, Circle, Line, Picture, Polygon, Text, placed
from slipstream.envs.env import Bool, Env, Float, Group, Int
from slipstream.envs.nearest import nearest
from slipstream.spaces import Box, MultiDiscrete

TURN = 2.0 * math.pi
DART = ((1.0, 0.0), (-0.8, 0.65), (-0.4, 0.0), (-0.8, -0.65))
"""How an agent is drawn that heads to the right."""
REACH = "#f3d3d3"


@dataclass
class State:
    loc_x: dict[str, Float]
    loc_y: dict[str, Float]
    speed: dict[str, Float]
    direction: dict[str, Float]
    acceleration: dict[str, Float]
    still_in_game: dict[str, Bool]
    seen_in_game: dict[str, Bool]
    """Who was in the game before the last step's tags: what observations are made of."""
    step: Int


class TagContinuous(Env):
    """Taggers chase runners in the plane, all steering by acceleration and turns."""

    def __init__(
        self,
        num_taggers: int = 1,
        num_runners: int = 10,
        grid_length: float = 10.0,
        episode_length: int = 100,
        max_speed: float = 1.0,
        skill_level_tagger: float = 1.0,
        skill_level_runner: float = 1.0,
        min_acceleration: float = -1.0,
        max_acceleration: float = 1.0,
        num_acceleration_levels: int = 10,
        min_turn: float = -math.pi / 2,
        max_turn: float = math.pi / 2,
        num_turn_levels: int = 10,
        full_observation: bool = False,
        num_neighbors: int = 2,
        tagging_distance: float = 0.01,
        edge_hit_penalty: float = 0.0,
        step_penalty_for_tagger: float = 0.0,
        step_reward_for_runner: float = 0.0,
        tag_reward_for_tagger: float = 1.0,
        tag_penalty_for_runner: float = -1.0,
        end_of_game_reward_for_runner: float = 1.0,
        runner_exits_game_after_tagged: bool = True,
    ):
        """Args:
        num_taggers: how many chase.
        num_runners: how many run away.
        grid_length: side of the square.
        episode_length: steps until an episode is truncated.
        max_speed: distance per step of an agent of skill 1.
        skill_level_tagger: what a tagger's maximal speed is multiplied by.
        skill_level_runner: what a runner's maximal speed is multiplied by.
        min_acceleration: the lowest acceleration level.
        max_acceleration: the highest acceleration level.
        num_acceleration_levels: how many levels there are (action 0 changes nothing).
        min_turn: the lowest turn level, in radians.
        max_turn: the highest turn level.
        num_turn_levels: how many levels there are (action 0 changes nothing).
        full_observation: see all other agents, instead of the nearest ones.
        num_neighbors: how many neighbours an agent sees (if not all).
        tagging_distance: a tag happens when closer than this share of the side.
        edge_hit_penalty: added to the reward of whoever runs into an edge.
        step_penalty_for_tagger: added to a tagger's reward in every step.
        step_reward_for_runner: added to a runner's reward in every step.
        tag_reward_for_tagger: added to a tagger's reward for each runner it tags.
        tag_penalty_for_runner: added to the reward of a runner that is tagged.
        end_of_game_reward_for_runner: added to the reward of a runner that is in the game at the last step.
        runner_exits_game_after_tagged: whether a tagged runner leaves the game.
        """
        others = num_taggers + num_runners - 1
        if num_taggers < 1 or num_runners < 1:
            raise ValueError(f"There must be taggers and runners, got {num_taggers} and {num_runners}.")
        if not full_observation and not 1 <= num_neighbors <= others:
            raise ValueError(f"num_neighbors must be within 1 .. {others} (the other agents), got {num_neighbors}.")
        self.max_steps = self.episode_length = episode_length
        self.length = grid_length
        self.max_speed = max_speed
        self.skill = {"tagger": skill_level_tagger, "runner": skill_level_runner}
        self.accelerations = _levels(min_acceleration, max_acceleration, num_acceleration_levels)
        self.turns = _levels(min_turn, max_turn, num_turn_levels)
        self.full_observation = full_observation
        self.num_neighbors = num_neighbors
        self.tag_radius = tagging_distance * grid_length
        self.edge_hit_penalty = edge_hit_penalty
        self.step_reward = {"tagger": step_penalty_for_tagger, "runner": step_reward_for_runner}
        self.tag_reward_for_tagger = tag_reward_for_tagger
        self.tag_penalty_for_runner = tag_penalty_for_runner
        self.end_of_game_reward_for_runner = end_of_game_reward_for_runner
        self.runner_exits = runner_exits_game_after_tagged
        seen = Box(7 * (others if full_observation else num_neighbors) + 1)
        moves = MultiDiscrete((num_acceleration_levels + 1, num_turn_levels + 1))
        self.tagger = Group("tagger", seen, moves, num_taggers)
        self.runner = Group("runner", seen, moves, num_runners)
        self.groups = (self.tagger, self.runner)

    def reset(self, rng):
        x, y, direction = {}, {}, {}
        for g in self.groups:
            draw = rng.of(g.name)
            x[g.name] = draw.uniform(0.0, self.length)
            y[g.name] = draw.uniform(0.0, self.length)
            direction[g.name] = draw.integer(4) * (math.pi / 2.0)
        nothing = {g.name: 0.0 for g in self.groups}
        everybody = {g.name: True for g in self.groups}
        return State(x, y, dict(nothing), direction, dict(nothing), dict(everybody), dict(everybody), step=0)

    def step(self, state, action, rng):
        playing = state.still_in_game
        moved = [self._move(g.name, state, *action[g.name]) for g in self.groups]
        x, y, speed, direction, acceleration, hit = (
            {g.name: value for g, value in zip(self.groups, values)} for values in zip(*moved)
        )
        state = replace(
            state,
            loc_x=x,
            loc_y=y,
            speed=speed,
            direction=direction,
            acceleration=acceleration,
            seen_in_game=playing,
        )
        # Everything that follows looks at all agents of a world: compute their moves once, in one pass.
        dr.schedule(moved)
        state, tags, tagged = self._tag(state)
        reward = {g: self._step_reward(g, hit[g], playing[g]) for g in playing}
        survived = state.still_in_game["runner"] & self.runner.spread(state.step >= self.max_steps)
        reward["tagger"] += tags * self.tag_reward_for_tagger
        reward["runner"] += dr.select(tagged, self.tag_penalty_for_runner, 0.0)
        reward["runner"] += dr.select(survived, self.end_of_game_reward_for_runner, 0.0)
        return state, reward, self.runner.count(state.still_in_game["runner"]) == 0

    def _move(self, group, state, acceleration_choice, turn_choice):
        """New position, speed, direction and acceleration, and who ran into an edge."""
        playing = state.still_in_game[group]
        fastest = self.max_speed * self.skill[group]
        direction = state.direction[group] + self.turns(turn_choice)
        direction = direction - TURN * dr.floor(direction / TURN)
        # A whole turn minus less than rounding can hold is a whole turn.
        direction = dr.select(direction < TURN, direction, 0.0)
        acceleration = state.acceleration[group] + self.accelerations(acceleration_choice)
        speed = dr.clip(state.speed[group] + acceleration, 0.0, fastest)
        direction, speed = (dr.select(playing, v, 0.0) for v in (direction, speed))
        acceleration = dr.select((speed > 0.0) & (speed < fastest), acceleration, 0.0)
        sin, cos = dr.sincos(direction)
        wanted_x = state.loc_x[group] + speed * cos
        wanted_y = state.loc_y[group] + speed * sin
        x, y = dr.clip(wanted_x, 0.0, self.length), dr.clip(wanted_y, 0.0, self.length)
        return x, y, speed, direction, acceleration, (x != wanted_x) | (y != wanted_y)

    def _tag(self, state):
        """The state with tagged runners out, how many each tagger has tagged, and which runners were tagged."""
        playing = state.still_in_game["runner"]
        chaser = nearest(self.runner, [self.tagger], (state.loc_x, state.loc_y))
        tagged = playing & (chaser.distance2[0] < self.tag_radius * self.tag_radius)
        dr.schedule(tagged, chaser.number)
        tags = chaser.tally(self.tagger, tagged)
        if self.runner_exits:
            left = dr.select(tagged, False, playing)
            state = replace(state, still_in_game={**state.still_in_game, "runner": left})
        return state, tags, tagged

    def _step_reward(self, group, hit, playing):
        reward = self.step_reward[group] + dr.select(hit, self.edge_hit_penalty, 0.0)
        return dr.select(playing, reward, 0.0)

    def _features(self, state):
        """The five normalised features of every agent."""
        across = 1.0 / (math.sqrt(2.0) * self.length)
        scales = (across, across, 1.0 / self.max_speed, 1.0 / self.max_speed, 1.0 / TURN)
        fields = (state.loc_x, state.loc_y, state.speed, state.acceleration, state.direction)
        return [{g: v * scale for g, v in field.items()} for field, scale in zip(fields, scales)]

    def observe(self, state):
        see = self._see_all if self.full_observation else self._see_nearest
        features = self._features(state)
        time = state.step * (1.0 / self.episode_length)
        observed = {}
        for g in self.groups:
            playing = state.seen_in_game[g.name]
            seen = see(g, state, features)
            observed[g.name] = [*seen, dr.select(playing, g.spread(time), 0.0)]
        return observed

    def _see_nearest(self, group, state, features):
        playing = state.seen_in_game[group.name]
        near = nearest(
            group,
            self.groups,
            (state.loc_x, state.loc_y),
            self.num_neighbors,
            active=state.seen_in_game,
            seeking=state.seen_in_game,
        )
        there = [playing & found for found in near.found]
        seen = []
        for feature in features:
            mine = feature[group.name]
            seen += [dr.select(t, theirs - mine, 0.0) for t, theirs in zip(there, near.of(feature))]
        seen += [dr.select(t & (n < self.tagger.size), 1.0, 0.0) for t, n in zip(there, near.number)]
        return seen + [dr.select(t, 1.0, 0.0) for t in there]

    def _see_all(self, group, state, features):
        playing = state.seen_in_game[group.name]
        seen = []
        for feature in features:
            mine = feature[group.name]
            seen += [dr.select(playing, theirs - mine, 0.0) for theirs in self._others(group, state, feature)]
        kinds = {"tagger": 1.0, "runner": 0.0}
        seen += self._others(group, state, kinds)
        flags = {g: dr.select(v, 1.0, 0.0) for g, v in state.seen_in_game.items()}
        return seen + self._others(group, state, flags)

    def _others(self, group, state, field):
        """A per-agent quantity of every agent but oneself, in index order, as each agent of `group` sees it."""
        everyone = [group.spread(g.pick(field[g.name], i)) for g in self.groups for i in range(g.size)]
        start = 0 if group is self.tagger else self.tagger.size
        me = group.index(state.step) + start
        return [dr.select(me <= i, everyone[i + 1], everyone[i]) for i in range(len(everyone) - 1)]

    def active(self, state):
        return state.still_in_game

    def report(self, state):
        left = self.runner.count(state.still_in_game["runner"])
        return {"runners_left": left * (1.0 / self.runner.size)}

    def draw(self, state):
        side, n = self.length, self.tagger.size
        x, y, direction = (state[name].tolist() for name in ("loc_x", "loc_y", "direction"))
        playing = state["still_in_game"].astype(bool).tolist()
        colours = [RED] * n + [BLUE] * self.runner.size
        order = sorted(range(len(x)), key=lambda i: (playing[i], i < n))  # who has left lies below, taggers on top
        agents = [
            Polygon(placed(DART, (x[i], y[i]), direction[i], side * (0.025 if i < n else 0.018)), colours[i])
            if playing[i]
            else Circle((x[i], y[i]), 0.008 * side, GREY)
            for i in order
        ]
        reach = [Circle((x[i], y[i]), self.tag_radius, REACH) for i in range(n)]
        fence = ((0.0, 0.0), (side, 0.0), (side, side), (0.0, side), (0.0, 0.0))
        left = f"{sum(playing[n:])} of {self.runner.size} runners left"
        above = 1.04 * side
        shapes = [
            Line(fence, 0.006 * side, GREY),
            *reach,
            *agents,
            Text((0.0, above), left, 0.05 * side, INK, "left"),
            Text((side, above), f"step {int(state['step'][0])}", 0.05 * side, INK, "right"),
        ]
        return Picture(shapes, bounds=(-0.04 * side, -0.04 * side, 1.04 * side, 1.09 * side))


def _levels(low: float, high: float, count: int):
    """From an action to its level: 0 is no change, i > 0 the i-th of evenly spaced values."""
    if count < 1:
        raise ValueError(f"The number of levels must be at least 1, got {count}.")
    values = np.linspace(low, high, count).tolist()

    def level(choice):
        # A table, in which every value is rounded once: four quarter turns are a whole one.
        result = 0.0
        for number, value in enumerate(values, 1):
            result = dr.select(choice == number, value, result)
        return result

    return level
