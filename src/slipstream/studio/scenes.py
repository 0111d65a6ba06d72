"""Which scene shows which worlds."""

from __future__ import annotations

from typing import Any

from slipstream.envs.env import Env
from slipstream.studio.panel import Panel
from slipstream.studio.scene import Scene
from slipstream.studio.stage import LiveGymnasium, LiveWorlds


def make_scene(server: Any, panel: Panel, arena: LiveWorlds | LiveGymnasium) -> Scene:
    """The scene for what is played."""
    from slipstream.studio.robots import RobotScene

    env = arena.env
    assert isinstance(env, Env)
    return RobotScene(server, env, arena.num_worlds)
