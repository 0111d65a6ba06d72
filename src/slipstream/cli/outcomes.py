"""How several runs ended, for people and for programs, and the command that goes on with them."""

from __future__ import annotations

import dataclasses
import math
import shlex
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slipstream.training.several import Outcome


@dataclass(frozen=True)
class Spread:
    """Of one number over several runs."""

    mean: float
    standard_deviation: float
    """Of the sample; NaN of a single run."""

    def __str__(self) -> str:
        if math.isnan(self.standard_deviation):
            return figure(self.mean)
        return f"{figure(self.mean)} +- {self.standard_deviation:,.{_decimals(self.mean)}f}"


def spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else math.nan)


def spreads(by_group: Sequence[Mapping[str, float]]) -> dict[str, Spread]:
    """Of every group that any of the runs knows."""
    groups = dict.fromkeys(group for values in by_group for group in values)
    return {group: spread([values[group] for values in by_group if group in values]) for group in groups}


def figure(value: float) -> str:
    """A return."""
    return f"{value:,.{_decimals(value)}f}"


def _decimals(value: float) -> int:
    return 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 4


def exit_code(outcomes: Sequence[Outcome]) -> int:
    from slipstream.cli.main import FAILED, INTERRUPTED, OK

    states = {outcome.state for outcome in outcomes}
    return INTERRUPTED if states & {"stopped", "not started"} else FAILED if "failed" in states else OK


def command_line(command: str, options: Any) -> str:
    """The command that gives these options, as it would be typed."""
    words = ["slipstream", command]
    for field in dataclasses.fields(options):
        value, flag = getattr(options, field.name), f"--{field.name.replace('_', '-')}"
        if value == field.default:
            continue
        if field.name == "env":
            words.append(value)
        elif isinstance(value, bool):
            words.append(flag)
        else:
            words += [w for v in (value if isinstance(value, tuple) else (value,)) for w in (flag, str(v))]
    return shlex.join(words)


def seeds_for_programs(folder: str, outcomes: Sequence[Outcome]) -> str:
    from slipstream.cli.values import strict_json

    done = [o for o in outcomes if o.finished]
    means = {"returns": spreads([o.returns for o in done]), "evaluation": spreads([o.evaluation for o in done])}
    return strict_json(
        {
            "run": folder,
            "finished": len(done),
            "runs": [dataclasses.asdict(o) for o in outcomes],
            **{kind: {g: dataclasses.asdict(s) for g, s in by_group.items()} for kind, by_group in means.items()},
        }
    )


def show_seeds(outcomes: Sequence[Outcome]) -> None:
    """A line for each seed, and the mean over those that finished."""
    from rich.console import Console
    from rich.table import Table

    done = [o for o in outcomes if o.finished]
    kinds = {"return": [o.returns for o in outcomes], "evaluation": [o.evaluation for o in outcomes]}
    cells = [(kind, group) for kind, by_group in kinds.items() for group in spreads(by_group)]
    table = Table("seed", "state", "steps", "seconds", *(f"{kind} {group}" for kind, group in cells))
    for column in table.columns[2:]:
        column.justify = "right"

    def values(outcome: Outcome) -> list[str]:
        known = {"return": outcome.returns, "evaluation": outcome.evaluation}
        return [figure(known[kind][group]) if group in known[kind] else "-" for kind, group in cells]

    for o in outcomes:
        table.add_row(str(o.seed), o.state, f"{o.step:,}", f"{o.seconds:.1f}", *values(o))
    if done:
        table.add_section()
        means = {"return": spreads([o.returns for o in done]), "evaluation": spreads([o.evaluation for o in done])}
        steps, seconds = spread([o.step for o in done]), spread([o.seconds for o in done])
        ends = [str(means[kind].get(group, "-")) for kind, group in cells]
        table.add_row("mean", f"of {len(done)}", f"{steps.mean:,.0f}", f"{seconds.mean:.1f}", *ends)
    Console().print(table)


def say_failures(command: str, outcomes: Sequence[Outcome]) -> None:
    """What even a quiet command says."""
    for outcome in outcomes:
        if outcome.state == "failed":
            print(f"slipstream {command}: {outcome.name} failed: {outcome.error}", file=sys.stderr)


def show_end(outcomes: Sequence[Outcome], folder: str, again: str) -> None:
    """What failed, and how to go on."""
    from rich.console import Console

    console = Console(soft_wrap=True, highlight=False, markup=False)
    for outcome in outcomes:
        if outcome.state == "failed":
            console.print(f"{outcome.name} failed: {outcome.error}")
    console.print(f"Runs: {folder}")
    if all(o.finished for o in outcomes):
        console.print(f"Draw them with: slipstream plot {shlex.quote(folder)}")
    else:
        failed_only = all(o.state in ("finished", "failed") for o in outcomes)
        console.print(f"{'Try again what failed' if failed_only else 'Go on'} with: {again}")
