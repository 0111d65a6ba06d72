"""The suite's tasks as worlds: one class each, so that each has its name."""

from __future__ import annotations

from slipstream.envs.dm_control import arms, legged, planar, poles, swimmers
from slipstream.envs.dm_control.world import SuiteWorld
from slipstream.envs.registry import suite_class

TASKS = {**poles.TASKS, **arms.TASKS, **planar.TASKS, **swimmers.TASKS, **legged.TASKS}
"""By name, without the `dm-` that the worlds' names begin with."""


for _name, _task in TASKS.items():
    _about = f"{_task.summary}\n\n{_name} of DeepMind's control suite."
    _fields = {
        "task": _task,
        "name": _task.file.removesuffix(".xml"),
        "camera": _task.camera,
        "__doc__": _about,
        "__module__": __name__,
    }
    _class = suite_class(f"dm-{_name}")
    globals()[_class] = type(_class, (SuiteWorld,), _fields)
