"""Which scene shows which worlds."""

from __future__ import annotations

from typing import Any

from slipstream.envs.env import Env
from slipstream.studio.drawings import DrawnScene
from slipstream.studio.panel import Panel
from slipstream.studio.scene import Scene
from slipstream.studio.screens import ScreenScene, TraceScene, TradingScene
from slipstream.studio.stage import LiveGymnasium, LiveWorlds


def make_scene(server: Any, panel: Panel, arena: LiveWorlds | LiveGymnasium) -> Scene:
    """The scene for what is played."""
    env = arena.env
    if isinstance(arena, LiveGymnasium):
        return ScreenScene(server, arena)
    assert env is not None
    if type(env).draw is not Env.draw:
        state = arena.state()
        if "shares" in state and hasattr(env, "market"):
            return TradingScene(server, panel, env, arena.num_worlds, state)
        return DrawnScene(server, env, arena.num_worlds, state)
    if hasattr(env, "model"):
        from slipstream.studio.robots import RobotScene

        return RobotScene(server, env, arena.num_worlds)
    return TraceScene(server, panel, arena)
