"""The humanoid of Liang et al. 2018 that runs straight ahead."""

from __future__ import annotations

from typing import Any

from slipstream.envs.locomotion.runner import Runner


class HumanoidRun(Runner):
    """Run to a target far ahead, facing it, upright, and with little effort.

    `humanoid_run` of Liang et al. 2018 with Gymnasium's humanoid.
    """

    name = "humanoid"
    feet = ("right_foot", "left_foot")

    def __init__(
        self,
        *,
        xml_file: str = "humanoid.xml",
        frame_skip: int = 4,
        start_height: float = 1.3,
        alive_height: float = 1.0,
        alive_reward: float = 2.0,
        energy_cost_weight: float = 3.0,
        effort_cost_weight: float = 0.2,
        **runner: Any,
    ):
        super().__init__(
            xml_file=xml_file,
            frame_skip=frame_skip,
            start_height=start_height,
            alive_height=alive_height,
            alive_reward=alive_reward,
            energy_cost_weight=energy_cost_weight,
            effort_cost_weight=effort_cost_weight,
            **runner,
        )
