"""Algorithms: records of pure functions that know nothing of worlds or loops."""
