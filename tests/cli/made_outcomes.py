"""Outcomes of runs that never ran."""

from slipstream.training.several import Outcome


def outcome(seed: int, state="finished", returns=None, evaluation=None, step=64, error=None) -> Outcome:
    return Outcome(f"seed{seed}", f"folder/seed{seed}", seed, state, step, 1.5, returns or {}, evaluation or {}, error)
