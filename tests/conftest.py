"""MuJoCo chooses its renderer when it is first imported, which some test modules do."""

from slipstream.training.robot_film import choose_renderer

choose_renderer()
