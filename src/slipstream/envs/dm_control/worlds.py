"""The suite's tasks as worlds: one class each, so that each has its name."""

from __future__ import annotations

from slipstream.envs.dm_control import arms, legged, planar, poles, swimmers
from slipstream.envs.dm_control.world import SuiteWorld

TASKS = {**poles.TASKS, **arms.TASKS, **planar.TASKS, **swimmers.TASKS, **legged.TASKS}
"""By name, without the `dm-` that the worlds' names begin with."""


def class_name(task: str) -> str:
    """Such as `DmWalkerWalk`."""
    return f"dm-{task}".title().replace("-", "")


for _name, _task in TASKS.items():
    _about = f"{_task.summary}\n\n{_name} of DeepMind's control suite."
    _fields = {
        "task": _task,
        "name": _task.file.removesuffix(".xml"),
        "camera": _task.camera,
        "__doc__": _about,
        "__module__": __name__,
    }
    globals()[class_name(_name)] = type(class_name(_name), (SuiteWorld,), _fields)
