"""Tag in plain vectorised NumPy, written from the rules alone: reference of the tests, peer of the benchmark.

Agents are the last axis, taggers first: every quantity of the agents is `[worlds, agents]`. Observations come
out feature-major, `[features, worlds * group]`, as Slipstream's do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

MOVE_X = np.array([0, 1, -1, 0, 0], np.int32)
MOVE_Y = np.array([0, 0, 0, 1, -1], np.int32)


class Outcome(NamedTuple):
    """What a step leads to, by group; observations before any reset."""

    observation: dict[str, np.ndarray]
    reward: dict[str, np.ndarray]
    terminated: np.ndarray
    truncated: np.ndarray


def _lanes(features: list[np.ndarray]) -> np.ndarray:
    """`[features, lanes]` from arrays `[worlds, agents]` each."""
    return np.stack([f.reshape(-1) for f in features]).astype(np.float32)


@dataclass
class GridworldRules:
    num_taggers: int = 10
    grid_length: int = 10
    episode_length: int = 100
    full_observation: bool = False
    wall_hit_penalty: float = 0.1
    tag_reward_for_tagger: float = 10.0
    tag_penalty_for_runner: float = 2.0
    step_cost_for_tagger: float = 0.01


class Gridworld:
    """tag-gridworld."""

    def __init__(self, num_worlds: int, rules: GridworldRules):
        self.rules, self.num_worlds = rules, num_worlds
        self.x, self.y = (np.zeros((num_worlds, rules.num_taggers + 1), np.int32) for _ in range(2))
        self.step_count = np.zeros(num_worlds, np.int32)
        self.begin(np.ones(num_worlds, bool))

    def begin(self, which: np.ndarray) -> None:
        """Start a new episode in some worlds (`[worlds]`, flags)."""
        centre = self.rules.grid_length // 2
        for place in (self.x, self.y):
            place[which, :-1] = centre
            place[which, -1] = 0
        self.step_count[which] = 0

    def step(self, action: np.ndarray) -> Outcome:
        """Move everybody (`action`: `[worlds, agents]`), without a reset."""
        rules = self.rules
        x, y = self.x + MOVE_X[action], self.y + MOVE_Y[action]
        self.x, self.y = np.clip(x, 0, rules.grid_length), np.clip(y, 0, rules.grid_length)
        hit = (x != self.x) | (y != self.y)
        self.step_count = self.step_count + 1
        caught = (self.x[:, :-1] == self.x[:, -1:]) & (self.y[:, :-1] == self.y[:, -1:])
        tagged = caught.any(axis=1, keepdims=True)
        penalty = np.where(hit, np.float32(rules.wall_hit_penalty), np.float32(0))
        tagger = np.where(tagged, rules.tag_reward_for_tagger, -rules.step_cost_for_tagger) - penalty[:, :-1]
        runner = np.where(tagged, -rules.tag_penalty_for_runner, rules.step_cost_for_tagger) - penalty[:, -1:]
        reward = {
            "tagger": tagger.reshape(-1).astype(np.float32),
            "runner": runner.reshape(-1).astype(np.float32),
        }
        return Outcome(self.observe(), reward, tagged[:, 0], self.step_count >= rules.episode_length)

    def observe(self) -> dict[str, np.ndarray]:
        return self._observe_all() if self.rules.full_observation else self._observe_nearest()

    def _observe_nearest(self) -> dict[str, np.ndarray]:
        length = np.float32(self.rules.grid_length)
        x, y = self.x / length, self.y / length
        n = self.rules.num_taggers
        time = (self.step_count / np.float32(self.rules.episode_length))[:, None]
        apart = (self.x[:, :-1] - self.x[:, -1:]) ** 2 + (self.y[:, :-1] - self.y[:, -1:]) ** 2
        nearest = apart.argmin(axis=1)[:, None]  # the first one on a tie
        seen = [np.take_along_axis(v, nearest, axis=1) for v in (x, y)]
        shape = (self.num_worlds, n)
        runner = [np.broadcast_to(v[:, -1:], shape) for v in (x, y)]
        own = [x[:, :-1], y[:, :-1]]
        return {
            "tagger": _lanes([*own, *runner, np.zeros(shape), np.broadcast_to(time, shape)]),
            "runner": _lanes([x[:, -1:], y[:, -1:], *seen, np.ones_like(time), time]),
        }

    def _observe_all(self) -> dict[str, np.ndarray]:
        agents, length = self.rules.num_taggers + 1, np.float32(self.rules.grid_length)
        types = np.broadcast_to(np.arange(agents) == agents - 1, (self.num_worlds, agents))
        time = (self.step_count / np.float32(self.rules.episode_length))[:, None]
        seen = np.concatenate([self.x / length, self.y / length, types], axis=1)
        views = np.empty((self.num_worlds, agents, 4 * agents + 1), np.float32)
        views[:, :, : 3 * agents] = seen[:, None, :]
        views[:, :, 3 * agents : -1] = np.eye(agents)
        views[:, :, -1] = time
        by_feature = np.moveaxis(views, 2, 0)
        return {
            "tagger": by_feature[:, :, :-1].reshape(4 * agents + 1, -1),
            "runner": by_feature[:, :, -1:].reshape(4 * agents + 1, -1),
        }

    def random_step(self, draw: np.random.Generator) -> Outcome:
        """A step with random actions that begins anew where an episode has ended, as a simulator must."""
        outcome = self.step(draw.integers(0, 5, self.x.shape, np.int32))
        done = outcome.terminated | outcome.truncated
        if not done.any():
            return outcome
        self.begin(done)
        return outcome._replace(observation=_merge(outcome.observation, self.observe(), done))


def _merge(old: dict, new: dict, done: np.ndarray) -> dict[str, np.ndarray]:
    """Observations with those of the next episode where one has ended."""
    return {g: np.where(np.repeat(done, old[g].shape[1] // len(done)), new[g], old[g]) for g in old}


@dataclass
class ContinuousRules:
    num_taggers: int = 1
    num_runners: int = 10
    grid_length: float = 10.0
    episode_length: int = 100
    max_speed: float = 1.0
    skill_level_tagger: float = 1.0
    skill_level_runner: float = 1.0
    min_acceleration: float = -1.0
    max_acceleration: float = 1.0
    num_acceleration_levels: int = 10
    min_turn: float = -math.pi / 2
    max_turn: float = math.pi / 2
    num_turn_levels: int = 10
    full_observation: bool = False
    num_neighbors: int = 2
    tagging_distance: float = 0.01
    edge_hit_penalty: float = 0.0
    step_penalty_for_tagger: float = 0.0
    step_reward_for_runner: float = 0.0
    tag_reward_for_tagger: float = 1.0
    tag_penalty_for_runner: float = -1.0
    end_of_game_reward_for_runner: float = 1.0
    runner_exits_game_after_tagged: bool = True


class Continuous:
    """tag-continuous."""

    def __init__(self, num_worlds: int, rules: ContinuousRules, seed: int = 0):
        self.rules, self.num_worlds = rules, num_worlds
        self.draw = np.random.default_rng(seed)
        self.agents = rules.num_taggers + rules.num_runners
        shape = (num_worlds, self.agents)
        self.is_tagger = np.arange(self.agents) < rules.num_taggers
        skill = np.where(self.is_tagger, rules.skill_level_tagger, rules.skill_level_runner)
        self.fastest = (rules.max_speed * skill).astype(np.float32)
        self.x, self.y, self.speed, self.direction, self.acceleration = np.zeros((5, *shape), np.float32)
        self.playing, self.seen = np.ones((2, *shape), bool)
        self.step_count = np.zeros(num_worlds, np.int32)
        self.accelerations = self._levels(rules.min_acceleration, rules.max_acceleration, rules.num_acceleration_levels)
        self.turns = self._levels(rules.min_turn, rules.max_turn, rules.num_turn_levels)
        self.begin(np.ones(num_worlds, bool))

    def _levels(self, low: float, high: float, count: int) -> np.ndarray:
        return np.concatenate([[0.0], np.linspace(low, high, count)]).astype(np.float32)

    def begin(self, which: np.ndarray) -> None:
        """Start a new episode in some worlds (`[worlds]`, flags)."""
        shape = (int(which.sum()), self.agents)
        self.x[which] = self.draw.uniform(0, self.rules.grid_length, shape)
        self.y[which] = self.draw.uniform(0, self.rules.grid_length, shape)
        self.direction[which] = self.draw.integers(0, 4, shape) * np.float32(math.pi / 2)
        self.speed[which] = self.acceleration[which] = 0.0
        self.playing[which] = self.seen[which] = True
        self.step_count[which] = 0

    def step(self, faster: np.ndarray, turn: np.ndarray) -> Outcome:
        """Move and tag (both actions: `[worlds, agents]`), without a reset."""
        rules, taggers = self.rules, self.rules.num_taggers
        was_playing = self.playing.copy()
        hit = self._move(faster, turn)
        self.step_count = self.step_count + 1
        self.seen = was_playing
        reward = np.where(self.is_tagger, rules.step_penalty_for_tagger, rules.step_reward_for_runner)
        reward = np.where(was_playing, reward + np.where(hit, rules.edge_hit_penalty, 0.0), 0.0)
        reward = reward.astype(np.float32)
        self._tag(reward, was_playing)
        last = (self.step_count >= rules.episode_length)[:, None]
        survived = self.playing[:, taggers:] & last
        reward[:, taggers:] += np.where(survived, np.float32(rules.end_of_game_reward_for_runner), 0)
        terminated = np.logical_not(self.playing[:, taggers:].any(axis=1))
        split = {"tagger": reward[:, :taggers].reshape(-1), "runner": reward[:, taggers:].reshape(-1)}
        return Outcome(self.observe(), split, terminated, last[:, 0])

    def _move(self, faster: np.ndarray, turn: np.ndarray) -> np.ndarray:
        """Everybody's new place; returns who ran into an edge."""
        length = np.float32(self.rules.grid_length)
        whole = np.float32(2 * math.pi)
        direction = np.mod(self.direction + self.turns[turn], whole)
        direction = np.where(direction < whole, direction, np.float32(0))
        acceleration = self.acceleration + self.accelerations[faster]
        speed = np.clip(self.speed + acceleration, np.float32(0), self.fastest)
        self.speed = np.where(self.playing, speed, np.float32(0))
        self.direction = np.where(self.playing, direction, np.float32(0))
        between = (self.speed > 0) & (self.speed < self.fastest)
        self.acceleration = np.where(between, acceleration, np.float32(0))
        x, y = self.x + self.speed * np.cos(self.direction), self.y + self.speed * np.sin(self.direction)
        self.x, self.y = np.clip(x, np.float32(0), length), np.clip(y, np.float32(0), length)
        return (x != self.x) | (y != self.y)

    def _tag(self, reward: np.ndarray, was_playing: np.ndarray) -> None:
        """Tags of this step: changes who is playing, and the reward in place."""
        rules, taggers = self.rules, self.rules.num_taggers
        dx = self.x[:, taggers:, None] - self.x[:, None, :taggers]
        dy = self.y[:, taggers:, None] - self.y[:, None, :taggers]
        apart = dx * dx + dy * dy
        tagger = apart.argmin(axis=2)  # the first one on a tie
        closest = np.take_along_axis(apart, tagger[..., None], axis=2)[..., 0]
        radius = np.float32(rules.tagging_distance * rules.grid_length)
        tagged = was_playing[:, taggers:] & (closest < radius * radius)
        reward[:, taggers:] += np.where(tagged, np.float32(rules.tag_penalty_for_runner), 0)
        world, runner = np.nonzero(tagged)
        np.add.at(reward, (world, tagger[world, runner]), np.float32(rules.tag_reward_for_tagger))
        if rules.runner_exits_game_after_tagged:
            self.playing = self.playing.copy()
            self.playing[:, taggers:] &= ~tagged

    def features(self) -> np.ndarray:
        """The five normalised features, `[5, worlds, agents]`."""
        across, fast = math.sqrt(2) * self.rules.grid_length, self.rules.max_speed
        scales = np.array([across, across, fast, fast, 2 * math.pi], np.float32)[:, None, None]
        return np.stack([self.x, self.y, self.speed, self.acceleration, self.direction]) / scales

    def observe(self) -> dict[str, np.ndarray]:
        """Of all agents, `[features, worlds, agents]`, then by group."""
        seen = self._see_all() if self.rules.full_observation else self._see_nearest()
        time = (self.step_count / np.float32(self.rules.episode_length))[:, None]
        seen = np.concatenate([seen, np.where(self.seen, time, 0)[None]]).astype(np.float32)
        taggers = self.rules.num_taggers
        return {
            "tagger": seen[:, :, :taggers].reshape(len(seen), -1),
            "runner": seen[:, :, taggers:].reshape(len(seen), -1),
        }

    def _see_all(self) -> np.ndarray:
        n = self.agents
        others = np.array([[j for j in range(n) if j != i] for i in range(n)]).T  # [others, agents]
        features = self.features()
        relative = features[:, :, others] - features[:, :, None, :]  # [5, worlds, others, agents]
        relative = np.where(self.seen[:, None, :], relative, 0)
        types = np.broadcast_to(self.is_tagger[others], (self.num_worlds, *others.shape))
        kinds = np.stack([types, self.seen[:, others]])
        seen = np.concatenate([relative, kinds])
        return np.moveaxis(seen, 1, 2).reshape(-1, self.num_worlds, n)

    def _see_nearest(self) -> np.ndarray:
        k, n = self.rules.num_neighbors, self.agents
        dx, dy = (v[:, :, None] - v[:, None, :] for v in (self.x, self.y))
        apart = dx * dx + dy * dy
        apart[:, np.arange(n), np.arange(n)] = np.inf
        apart = np.where(self.seen[:, None, :], apart, np.float32(np.inf))
        # A distance is positive, so its bits are ordered like it: one key orders by distance, then by number.
        keys = (apart.view(np.uint32).astype(np.uint64) << np.uint64(32)) | np.arange(n, dtype=np.uint64)
        keys = np.sort(np.partition(keys, k - 1, axis=2)[:, :, :k], axis=2)
        number = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)  # [worlds, agents, k]
        found = (keys >> np.uint64(32)) < np.uint64(0x7F800000)
        there = found & self.seen[:, :, None]
        world = np.arange(self.num_worlds)[:, None, None]
        features = self.features()
        relative = features[:, world, number] - features[:, :, :, None]  # [5, worlds, agents, k]
        seen = np.concatenate([relative, self.is_tagger[number][None], np.ones_like(relative[:1])])
        seen = np.where(there, seen, 0)
        return np.moveaxis(seen, 3, 1).reshape(7 * k, self.num_worlds, n)

    def random_step(self, draw: np.random.Generator) -> Outcome:
        """A step with random actions that begins anew where an episode has ended, as a simulator must."""
        faster = draw.integers(0, len(self.accelerations), self.x.shape, np.int32)
        turn = draw.integers(0, len(self.turns), self.x.shape, np.int32)
        outcome = self.step(faster, turn)
        done = outcome.terminated | outcome.truncated
        if not done.any():
            return outcome
        self.begin(done)
        return outcome._replace(observation=_merge(outcome.observation, self.observe(), done))
