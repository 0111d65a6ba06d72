"""Gymnasium's Swimmer-v5."""

from __future__ import annotations

from typing import Any

from slipstream.envs.locomotion.forward import ForwardRobot


class Swimmer(ForwardRobot):
    """Swim forward with three links in a viscous fluid.

    Gymnasium's Swimmer-v5.
    """

    name = "swimmer"
    camera = (5.0, -55.0)
    gymnasium_id = "Swimmer-v5"
    ground_coordinates = 2

    def __init__(
        self,
        xml_file: str = "swimmer.xml",
        frame_skip: int = 4,
        ctrl_cost_weight: float = 1e-4,
        reset_noise_scale: float = 0.1,
        **forward: Any,
    ):
        super().__init__(
            xml_file, frame_skip, ctrl_cost_weight=ctrl_cost_weight, reset_noise_scale=reset_noise_scale, **forward
        )
