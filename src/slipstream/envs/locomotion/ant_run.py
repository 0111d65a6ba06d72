"""The ant of Liang et al. 2018."""

from __future__ import annotations

from typing import Any

from slipstream.envs.locomotion.runner import Runner


class AntRun(Runner):
    """Run on four legs to a target far ahead, facing it, and with little effort.

    The ant of Liang et al. 2018 with Gymnasium's ant. Its parts pass through each other, and its feet cannot reach
    one another, so that nothing is ever paid for a collision.
    """

    name = "ant"
    camera = (3.5, -22.0)
    feet = ("left_ankle_geom", "right_ankle_geom", "third_ankle_geom", "fourth_ankle_geom")

    def __init__(
        self,
        *,
        xml_file: str = "ant.xml",
        frame_skip: int = 4,
        start_height: float = 0.55,
        alive_height: float = 0.295,
        alive_reward: float = 0.5,
        energy_cost_weight: float = 2.0,
        effort_cost_weight: float = 0.1,
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

    def rest_angles(self):
        """Every joint in the middle of its range: with straight legs the ankles would be beyond their limits."""
        return [0.5 * (joint.range[0] + joint.range[1]) for joint in self.hinges]
