"""Robots on legs, from the MJCF file of anybody's: walk as commanded."""
