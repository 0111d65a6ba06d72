"""Slipstream: massively parallel reinforcement learning on the machine you have."""
