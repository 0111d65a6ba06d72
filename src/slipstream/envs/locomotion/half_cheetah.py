"""Gymnasium's HalfCheetah-v5."""

from __future__ import annotations

from typing import Any

from slipstream.envs.locomotion.forward import ForwardRobot


class HalfCheetah(ForwardRobot):
    """Run forward as fast as two legs in a plane allow.

    Gymnasium's HalfCheetah-v5.
    """

    name = "cheetah"
    camera = (1.75, -12.0)
    gymnasium_id = "HalfCheetah-v5"
    normal_velocities = True

    def __init__(
        self,
        xml_file: str = "half_cheetah.xml",
        frame_skip: int = 5,
        ctrl_cost_weight: float = 0.1,
        reset_noise_scale: float = 0.1,
        **forward: Any,
    ):
        super().__init__(
            xml_file, frame_skip, ctrl_cost_weight=ctrl_cost_weight, reset_noise_scale=reset_noise_scale, **forward
        )
