"""Whether training is still sound: what is wrong is said once, and loudly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

HOPELESS = 20
"""After so many updates in a row without a single finite gradient a run is given up."""

SIGNS = {
    "observations_not_finite": "{count:,.0f} observations of policy {policy!r} were not finite (NaN or infinite)",
    "nothing_allowed": "{count:,.0f} times the action mask allowed agents of policy {policy!r} nothing at all",
    "observations_outside": "{count:,.0f} observations were outside the space that the environment says they are in",
    "steps_skipped": "gradients of policy {policy!r} were not finite; those steps were skipped",
}
"""Metrics of a policy that should be 0, and what it means when they are not."""


class TrainingFailed(RuntimeError):
    """Nothing can be learned any more; the message says why, and what to do."""


class ProcessLost(TrainingFailed):
    """One of the processes that train together is gone; the message says which, and how to go on."""


def left_out(report: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """By name, what a world left out of its episodes (`Env.left_out`), as sentences without their full stop."""
    for name, value in report.items():
        what, sign, rest = name.rpartition("_left_out")
        if sign and not rest and value > 0:
            way_out = "; raise self_contacts" if what == "contacts" else ""
            yield name, f"{value:.3g} {what.replace('_', ' ')} were left out per episode{way_out}"


class Health:
    """Watches the rows of metrics."""

    def __init__(self, warn: Callable[[str], None]):
        self._warn = warn
        self._said: set[str] = set()

    def examine(self, row: Mapping[str, float]) -> None:
        """Warn of what is new; raise `TrainingFailed` when nothing finite is learned any more."""
        if row["broken_worlds"]:
            self._once(
                "broken_worlds", f"{row['broken_worlds']:,.0f} worlds were reset because their state was not finite"
            )
        for name, text in left_out({name.removeprefix("report/"): value for name, value in row.items()}):
            self._once(name, text, hint="")
        for name, value in row.items():
            policy, _, sign = name.rpartition("/")
            if sign in SIGNS and value:
                self._once(name, SIGNS[sign].format(count=value, policy=policy))
            if policy == "rewards_not_finite" and value:
                self._once(name, f"in {value:,.0f} steps a reward of group {sign!r} was not finite; it counts as 0")
            if sign == "updates_skipped_in_a_row" and value >= HOPELESS:
                raise TrainingFailed(
                    f"Policy {policy!r} has not learned anything finite for {value:,.0f} updates. The weights are as "
                    "they were before. Look for NaN in the world's observations (`slipstream check`), or try a smaller "
                    "learning_rate or reward_scale."
                )

    def _once(self, sign: str, text: str, hint: str = "; `slipstream check` may find the cause") -> None:
        if sign not in self._said:
            self._said.add(sign)
            self._warn(f"{text}. Metrics count it from now on{hint}.")
