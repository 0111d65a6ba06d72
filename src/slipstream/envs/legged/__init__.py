"""Robots on legs, from anybody's MJCF file: walk as commanded."""
