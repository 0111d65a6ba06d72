"""Robots that walk, run, swim and balance, on Slipstream's own physics."""
