"""The one who acts in an environment of Gymnasium, as a group of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipstream.envs.env import Group
from slipstream.training.pipeline.simulators import simulator_spaces

GROUP = "agent"


def agent_group(env: str, options: Mapping[str, Any]) -> Group:
    """What is seen and done in an environment.

    Args:
        env: its name.
        options: its keyword arguments.
    """
    observation, action = simulator_spaces(env, options)
    return Group(GROUP, observation, action)
