"""Registers the worlds with Gymnasium: `gymnasium.make_vec("slipstream/Humanoid-v0", num_envs=1024)`.

`import slipstream.gymnasium` is enough, and so is `make_vec("slipstream.gymnasium:slipstream/Humanoid-v0", ...)`. Only
names are registered: a world is imported when it is made.
"""

from __future__ import annotations

import gymnasium

from slipstream.envs.registry import NAMES

SEVERAL_KINDS = ("tag-gridworld", "tag-continuous")
"""Worlds with agents of several kinds, which Gymnasium has no place for (`Worlds.as_pettingzoo` has)."""


def gymnasium_id(name: str) -> str:
    """The id of a world, such as `slipstream/HalfCheetah-v0` of `half-cheetah`."""
    return f"slipstream/{NAMES[name].rpartition(':')[2]}-v0"


IDS = {gymnasium_id(name): name for name in NAMES if name not in SEVERAL_KINDS}
"""Every id that is registered, and the world's name."""

_HOME = "slipstream.envs.adapters.vector_env"

for _id, _name in IDS.items():
    if _id not in gymnasium.registry:
        gymnasium.register(
            _id,
            entry_point=f"{_HOME}:single_env",
            vector_entry_point=f"{_HOME}:vector_env",
            kwargs={"env": _name},
        )
