"""Worlds: the protocol a user writes, N copies of it on the device, and the worlds that come with Slipstream."""

from slipstream.envs.env import Bool, Env, Float, Group, Int
from slipstream.envs.nearest import nearest, shortest
from slipstream.envs.registry import make
from slipstream.envs.statistics import EpisodeStatistics, EpisodeTotals
from slipstream.envs.worlds import Step, Worlds

__all__ = [
    "Bool",
    "Env",
    "EpisodeStatistics",
    "EpisodeTotals",
    "Float",
    "Group",
    "Int",
    "Step",
    "Worlds",
    "make",
    "nearest",
    "shortest",
]
