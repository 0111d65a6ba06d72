"""`slipstream sweep`: train with every combination of some settings, and say which is best."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json as json_module
import math
import random
import re
import shlex
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tyro

from slipstream.cli.train import Configured

if TYPE_CHECKING:
    from slipstream.cli.outcomes import Spread
    from slipstream.training.config import TrainConfig
    from slipstream.training.several import Outcome

Combination = dict[str, Any]

LONGEST = 120
"""Characters of a folder's name."""

NOT_ONE_SETTING = ("env", "policies", "driver", "settings", "env_options")


@dataclass(frozen=True)
class Sweep(Configured):
    """Train with every combination of some settings, and show a table of them, the best one first.

    For example `slipstream sweep cartpole --over learning_rate=1e-4,1e-3 --over hidden=[32,32],[64,64] --seeds 2`.

    What is best is judged by the last evaluations, where there are any (--evaluate-every), else by the last returns in
    training; among those that reach --stop-at-return by their steps.

    Ctrl-C saves the runs that are under way. The same command with the same --run goes on where it stopped: runs that
    are finished are kept, others are resumed, missing ones are started.
    """

    over: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """What to vary, as name=value,value,...; may be repeated. The names are those of settings of the algorithm (also
    policy.name), options of the world, num_worlds, rollout_length, algo, and so on."""
    samples: int | None = None
    """Take only so many of the combinations, drawn at random (by --seed)."""
    seeds: int = 1
    """With how many seeds every combination is trained."""
    at_once: int = 1
    """How many runs share the machine, each on its own cores."""
    run: str | None = None
    """The folder of the runs; by default a new one under runs/."""
    quiet: bool = False
    """Show nothing while training."""
    json: bool = False
    """Print the table as JSON."""


@dataclass(frozen=True)
class Row:
    """A combination, and what became of it."""

    combination: Combination
    outcomes: list[Outcome]
    score: Spread | None
    """Over the runs that finished."""


def run(options: Sweep) -> int:
    from slipstream.cli.outcomes import command_line, exit_code, say_failures, show_end
    from slipstream.cli.values import strict_json
    from slipstream.training.several import by_seed, new_folder, train_all

    combinations = choose(parse_over(options.over), options.samples, options.seed or 0)
    configs = {folder_name(c): _config_of(options, c) for c in combinations}
    base = next(iter(configs.values()))
    folder = options.run or str(new_folder(base, "sweep"))
    members = {
        f"{name}/{seed}": c for name, config in configs.items() for seed, c in by_seed(config, options.seeds).items()
    }
    outcomes = train_all(members, folder, at_once=options.at_once, quiet=options.quiet)
    by_combination = [[o for n, o in outcomes.items() if n.startswith(f"{name}/")] for name in configs]
    judged_by, rows = judge(combinations, by_combination, _judged_group(base), base.stop_at_return)
    if options.quiet:
        say_failures("sweep", list(outcomes.values()))
    if options.json:
        print(strict_json(_for_programs(folder, judged_by, rows)))
    elif not options.quiet:
        _show(judged_by, rows)
        again = command_line("sweep", dataclasses.replace(options, run=folder))
        show_end(list(outcomes.values()), folder, again)
        if (best := _train_best(rows)) is not None:
            print(f"Train the best again with: {best}")
    return exit_code(list(outcomes.values()))


# What to train.


def parse_over(texts: Sequence[str]) -> dict[str, list[Any]]:
    """`("a=1,2", "b=[3,4],[5]")` as `{"a": [1, 2], "b": [[3, 4], [5]]}`."""
    from slipstream.cli.values import parse_assignments

    over: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        pieces = split_values(values)
        if not equals or not name or not all(pieces):
            raise ValueError(f"--over must look like name=value,value, got {text!r}.")
        parsed = [parse_assignments("--over", (f"{name}={piece}",)) for piece in pieces]
        (plain,) = parsed[0]
        if plain == "seed":
            raise ValueError("A sweep takes the same seeds for every combination: say how many with --seeds.")
        if plain in NOT_ONE_SETTING:
            raise ValueError(f"--over {plain} is more than one setting: name the one that varies.")
        if plain in over:
            raise ValueError(f"--over {plain} is given twice: put all its values into one.")
        over[plain] = [next(iter(p.values())) for p in parsed]
        if len({json_module.dumps(v) for v in over[plain]}) < len(pieces):
            raise ValueError(f"--over {plain} has the same value twice: {values}.")
    if not over:
        raise ValueError("Say what to vary, for example --over learning_rate=1e-4,1e-3.")
    return over


def split_values(text: str) -> list[str]:
    """What is between the commas that are in no brackets and no quotes."""
    pieces, depth, quoted = [""], 0, False
    for letter in text:
        quoted ^= letter == '"'
        if not quoted:
            depth += (letter in "[{") - (letter in "]}")
        if letter == "," and not depth and not quoted:
            pieces.append("")
        else:
            pieces[-1] += letter
    return [piece.strip() for piece in pieces]


def choose(over: dict[str, list[Any]], samples: int | None, seed: int) -> list[Combination]:
    """All combinations, or some of them drawn at random."""
    grid = [dict(zip(over, values)) for values in itertools.product(*over.values())]
    if samples is None or samples >= len(grid):
        return grid
    if samples < 1:
        raise ValueError(f"--samples must be at least 1, got {samples}.")
    return random.Random(seed).sample(grid, samples)


def folder_name(combination: Combination) -> str:
    """Such as `learning_rate=0.001,hidden=[32,32]`; what does not fit into a file's name is told apart by a number."""
    exact = label(combination)
    safe = re.sub(r"[^\w.,=+\[\]-]", "-", exact)[:LONGEST]
    return safe if safe == exact else f"{safe}-{hashlib.sha256(exact.encode()).hexdigest()[:8]}"


def label(combination: Combination) -> str:
    return ",".join(f"{name}={_word(value)}" for name, value in combination.items())


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json_module.dumps(value, separators=(",", ":"))


def _config_of(options: Sweep, combination: Combination) -> TrainConfig:
    from slipstream.cli.train import configure

    plain = {name: value for name, value in combination.items() if name != "algo" and "." not in name}
    of_policies = tuple(f"{name}={json_module.dumps(value)}" for name, value in combination.items() if "." in name)
    if "algo" in combination:
        if options.algo is not None:
            raise ValueError("--algo and --over algo: give one or the other.")
        options = dataclasses.replace(options, algo=combination["algo"])
    try:
        return configure(dataclasses.replace(options, set=(*options.set, *of_policies)), plain)
    except ValueError as error:
        raise ValueError(f"With {label(combination)}: {error}") from error


# What became of it.


def _judged_group(config: TrainConfig) -> str:
    """Whose return is the score: that of the first policy that learns, as in a run's own evaluations."""
    policies = list(config.policies.values())
    return next((p for p in policies if not p.frozen), policies[0]).groups[0]


def judge(
    combinations: Sequence[Combination], outcomes: Sequence[list[Outcome]], group: str, goal: float | None = None
) -> tuple[str, list[Row]]:
    """By what the combinations are judged, and the combinations, best first.

    Equally good ones go by their steps, and so do those that have reached the goal at which they were to stop.
    """
    from slipstream.cli.outcomes import spread

    done = [[o for o in members if o.finished] for members in outcomes]
    evaluated = all(group in o.evaluation for members in done for o in members)
    rows = []
    for combination, members, finished in zip(combinations, outcomes, done):
        known = [o.evaluation if evaluated else o.returns for o in finished]
        values = [values[group] for values in known if group in values]
        rows.append(Row(combination, members, spread(values) if values else None))

    def place(row: Row) -> tuple[float, int, float]:
        score = -math.inf if row.score is None else row.score.mean
        enough = score if goal is None else min(score, goal)
        return -enough, sum(o.step for o in row.outcomes), -score

    return f"{'evaluation' if evaluated else 'return'} {group}", sorted(rows, key=place)


def _train_best(rows: Sequence[Row]) -> str | None:
    """The command that trains the best combination anew, with a seed that the sweep has not seen."""
    if rows[0].score is None:
        return None
    seed = 1 + max(o.seed for o in rows[0].outcomes)
    config = next(f"{o.run}/config.json" for o in rows[0].outcomes if o.finished)
    return f"slipstream train --config {shlex.quote(config)} --seed {seed}"


def _for_programs(folder: str, judged_by: str, rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "run": folder,
        "judged_by": judged_by,
        "combinations": [
            {
                "settings": row.combination,
                "score": None if row.score is None else dataclasses.asdict(row.score),
                "runs": [dataclasses.asdict(o) for o in row.outcomes],
            }
            for row in rows
        ],
        "train_best": _train_best(rows),
    }


def _show(judged_by: str, rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(*rows[0].combination, judged_by, "finished", "steps", "seconds")
    for column in table.columns[len(rows[0].combination) :]:
        column.justify = "right"
    for row in rows:
        done = [o for o in row.outcomes if o.finished]
        table.add_row(
            *(escape(_word(value)) for value in row.combination.values()),
            "-" if row.score is None else str(row.score),
            f"{len(done)} of {len(row.outcomes)}",
            f"{statistics.fmean(o.step for o in done):,.0f}" if done else "-",
            f"{statistics.fmean(o.seconds for o in done):.1f}" if done else "-",
        )
    Console().print(table)
