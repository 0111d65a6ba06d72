"""From steps of several environments to packed rows of n-step transitions, in NumPy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from slipstream.replay.layout import RowLayout
from slipstream.training.pipeline.ring import Region


class TransitionWriter:
    """Collects the n steps that follow every action, and writes them to a ring when they are over.

    A transition ends early where its episode does: with the final observation, and with a discount of 0 if the episode
    was terminated (not if it was truncated).
    """

    def __init__(self, region: Region, layout: RowLayout, lanes: int, n_step: int, discount: float):
        """Args:
        region: where rows go.
        layout: how a row lies.
        lanes: how many environments.
        n_step: how many rewards are summed up.
        discount: of a step.
        """
        self._region, self._layout = region, layout
        self._powers = discount ** np.arange(n_step + 1)
        # How many steps ago each open row began, and what its reward counts for now: by the time modulo n, [n, n].
        self._ages = (np.arange(n_step)[:, None] - np.arange(n_step)) % n_step
        self._weights = self._powers[self._ages].astype(np.float32)
        self._open = np.zeros((n_step, lanes, layout.width), np.float32)
        """Rows that wait for their steps, by the step at which they begin (modulo n)."""
        self._open[:, :, layout.slices["discount"]] = self._powers[-1]
        self._rewards = np.zeros((n_step, lanes), np.float32)
        """What they have earned so far."""
        self._pixels = np.zeros((n_step, lanes, layout.pixels), np.uint8) if layout.pixels else None
        self._length = np.zeros(lanes, np.int64)
        """How many of the last n steps belong to the episode."""
        self._all_under_way = False
        """Whether all episodes are so long that their next step makes a row whole."""
        self._time = 0

    @property
    def ready(self) -> bool:
        """There is always room: the oldest transitions are written over."""
        return True

    def add(
        self,
        observation: np.ndarray,
        action: np.ndarray,
        kept: Mapping[str, np.ndarray],
        reward: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        following: np.ndarray,
    ) -> None:
        """Take a step of all environments.

        Args:
            observation: `[features, lanes]`, bytes of pictures or 32-bit floats.
            action: in the policy's own units, `[components, lanes]`.
            kept: what acting leaves behind; none of it is needed here.
            reward: `[lanes]`
            terminated: `[lanes]`
            truncated: `[lanes]`
            following: what the step led to, the final observation where an episode ended: `[features, lanes]`.
        """
        n, where = len(self._open), self._layout.slices
        now = self._time % n
        row = self._open[now]
        if self._pixels is None:
            row[:, where["observation"]] = observation.T
        else:
            self._pixels[now, :, : len(observation)] = observation.T
        row[:, where["action"]] = action.T
        self._rewards[now] = 0.0
        ended = terminated | truncated
        if self._all_under_way and b"\1" not in ended.tobytes():  # a third of the time that ended.any() takes
            self._rewards += self._weights[now][:, None] * reward
            self._write_oldest((now + 1) % n, following)
        else:
            self._add_one_by_one(now, reward, terminated, ended, following)
        self._time += 1

    def _write_oldest(self, begin: int, following: np.ndarray) -> None:
        """What nearly all steps come to: the row that began n - 1 steps ago is whole in all environments."""
        where, rows = self._layout.slices, self._open[begin]
        rows[:, where["reward"].start] = self._rewards[begin]
        if self._pixels is None:
            rows[:, where["next_observation"]] = following.T
            self._region.write(rows)
        else:
            self._pixels[begin, :, len(following) :] = following.T
            self._region.write(rows, self._pixels[begin])

    def _add_one_by_one(
        self, now: int, reward: np.ndarray, terminated: np.ndarray, ended: np.ndarray, following: np.ndarray
    ) -> None:
        """Where episodes begin or end."""
        n = len(self._open)
        self._length += 1
        ages = self._ages[now]
        alive = ages[:, None] < self._length
        self._rewards += alive * (self._weights[now][:, None] * reward)
        # Whole are the rows that began n - 1 steps ago, and all of an episode that has ended.
        whole = alive & (ended | (ages == n - 1)[:, None])
        begins, lanes = np.nonzero(whole)
        if len(begins):
            self._write(begins, lanes, ages[begins], terminated, following)
        self._length[ended] = 0
        np.minimum(self._length, n - 1, out=self._length)
        self._all_under_way = bool((self._length == n - 1).all())

    def settle(self, observation: np.ndarray) -> None:
        """What environments show now, after resets, is of no concern here."""

    def _write(
        self, begins: np.ndarray, lanes: np.ndarray, ages: np.ndarray, terminated: np.ndarray, following: np.ndarray
    ) -> None:
        where, pixels = self._layout.slices, None
        order = np.argsort(-ages, kind="stable")  # in the order in which they happened
        begins, lanes, ages = begins[order], lanes[order], ages[order]
        rows = self._open[begins, lanes]
        rows[:, where["reward"].start] = self._rewards[begins, lanes]
        rows[:, where["discount"].start] = np.where(terminated[lanes], 0.0, self._powers[ages + 1])
        if self._pixels is None:
            rows[:, where["next_observation"]] = following.T[lanes]
        else:
            pixels = self._pixels[begins, lanes]
            pixels[:, len(following) :] = following.T[lanes]
        self._region.write(rows, pixels)
