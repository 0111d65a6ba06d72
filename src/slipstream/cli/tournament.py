"""`slipstream tournament`: many agents train at once, a leaderboard ranks them, new ones start from the leaders."""

from __future__ import annotations

import dataclasses
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from slipstream.cli.train import Configured

if TYPE_CHECKING:
    from slipstream.tournament.leaderboard import Leaderboard
    from slipstream.tournament.plan import Plan
    from slipstream.tournament.result import Outcome

NEEDED = "A tournament needs Ray, SQLAlchemy and fsspec: pip install 'slipstream-rl[cluster]'"


@dataclass(frozen=True)
class Tournament(Configured):
    """Let pods train agents at the same time. A leaderboard ranks what they submit; new ones start from the leaders.

    For example `slipstream tournament cartpole --pods 2 --minutes 5`, or with settings that evolve
    `slipstream tournament hopper --pods 4 --generator pbt --quantum-seconds 60`. In a world with several policies (Tag)
    it is a league: each side is trained against those who lead the other.

    On a running tournament: `slipstream tournament scale DIR --pods N`, `pause DIR`, `resume DIR`, `leaderboard DIR`.
    Ctrl-C saves; `--resume DIR` goes on, also after `kill -9`. Options like --set, --steps and --worlds say how an
    agent is trained, as for `slipstream train` (--steps is the length of its schedules).
    """

    pods: int | None = None
    """How many agents are trained at the same time (2)."""
    minutes: float | None = None
    """End after so long (10)."""
    agents: int | None = None
    """End after so many submissions."""
    generator: str | None = None
    """Whom new agents start from: softmax (the better, the likelier; the default), top-k (any leader), pbt (a leader
    with perturbed settings), fresh (nobody), or path/to/file.py:function."""
    quantum_seconds: float | None = None
    """How long an agent is trained before it is submitted (60)."""
    quantum_steps: int | None = None
    """The same in environment steps."""
    fresh: float | None = None
    """The share of agents that start anew although there are leaders (0.1)."""
    ranges: str | None = None
    """A JSON file with the ranges within which pbt varies settings."""
    keep: int | None = None
    """How many of the best keep their weights (10)."""
    ensemble: int | None = None
    """How many of the best act together as one policy in the end (3)."""
    episodes: int | None = None
    """By how many episodes agents are ranked (100)."""
    final_episodes: int | None = None
    """By how many new episodes the winner and the ensemble are judged (400)."""
    opponents: int | None = None
    """In a league: against how many others an agent is trained and judged (4)."""
    cpus_per_pod: float | None = None
    """Cores that a pod takes (1); may be a fraction."""
    gpus_per_pod: float | None = None
    """GPUs that a pod takes (0); may be a fraction."""
    patience: float | None = None
    """Seconds beyond its quantum after which a pod that does not answer counts as dead (300)."""
    address: str | None = None
    """Of a Ray cluster, such as auto or host:6379; by default this machine."""
    database: str | None = None
    """Of the leaderboard: any URL of SQLAlchemy's; by default an SQLite file in the directory."""
    storage: str | None = None
    """Where weights go: any path that fsspec understands; by default the directory."""
    run: str | None = None
    """Directory of the tournament; by default a new one under runs/."""
    resume: str | None = None
    """A tournament to go on with; --minutes may be given anew."""
    quiet: bool = False
    """Show nothing while it runs."""
    json: bool = False
    """Print the result as JSON."""


Directory = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DIR")]


@dataclass(frozen=True)
class Scale:
    """Let a running tournament have another number of pods. Pods that are too many end after their quantum."""

    directory: Directory
    """Of the tournament."""
    pods: int
    """How many there should be."""
    json: bool = False
    """Print what is wanted now as JSON."""


@dataclass(frozen=True)
class Pause:
    """Start no more agents in a running tournament. Those that are being trained are submitted."""

    directory: Directory
    """Of the tournament."""
    json: bool = False
    """Print what is wanted now as JSON."""


@dataclass(frozen=True)
class Resume:
    """Go on with a tournament that was paused. (One that has ended: `slipstream tournament --resume DIR`.)"""

    directory: Directory
    """Of the tournament."""
    json: bool = False
    """Print what is wanted now as JSON."""


@dataclass(frozen=True)
class Board:
    """Show the leaderboard of a tournament, running or not; in a league also who beats whom."""

    directory: Directory
    """Of the tournament."""
    top: int = 10
    """How many agents of each pool."""
    json: bool = False
    """Print JSON instead of tables."""


ACTIONS = {"scale": Scale, "pause": Pause, "resume": Resume, "leaderboard": Board}
"""What can be done with a running tournament."""

RESUMED = ("resume", "minutes", "address", "quiet", "json")
"""Options that make sense with --resume."""


def run(options: Tournament | Scale | Pause | Resume | Board) -> int:
    try:
        import fsspec  # noqa: F401
        import ray  # noqa: F401
        import sqlalchemy  # noqa: F401
    except ImportError as error:
        raise ValueError(f"{NEEDED} ({error}).") from error
    if isinstance(options, Tournament):
        return _run(options)
    if isinstance(options, Board):
        return _show_leaderboard(options)
    return _change(options)


def _run(options: Tournament) -> int:
    from slipstream.tournament.tournament import resume_tournament, run_tournament

    if options.resume is not None:
        for field in dataclasses.fields(options):
            if getattr(options, field.name) != field.default and field.name not in RESUMED:
                flag = "a world" if field.name == "env" else f"--{field.name.replace('_', '-')}"
                raise ValueError(f"--resume goes on with a tournament as it was: {flag} cannot be given beside it.")
        outcome = resume_tournament(
            options.resume, minutes=options.minutes, address=options.address, quiet=options.quiet
        )
    else:
        outcome = run_tournament(plan_of(options), run=options.run, address=options.address, quiet=options.quiet)
    _report(outcome, options)
    return 0 if outcome.finished else 130


def plan_of(options: Tournament) -> Plan:
    """The plan that the options describe."""
    from slipstream.cli.train import configure
    from slipstream.tournament.plan import Plan

    names = [f.name for f in dataclasses.fields(Plan) if f.name != "train"]
    given: dict[str, Any] = {n: v for n in names if (v := getattr(options, n)) is not None}
    ends = (options.minutes, options.agents, options.stop_at_return)
    if any(end is not None for end in ends):
        given.setdefault("minutes", None)  # whoever names an end wants that one
    if options.quantum_steps is not None:
        given.setdefault("quantum_seconds", None)
    if options.seconds is not None:
        raise ValueError("--seconds is how long a run is trained: for a tournament give --quantum-seconds.")
    # An agent's quanta may all be shorter than the coarse part of a preset: it would never meet the task's own physics.
    return Plan(configure(dataclasses.replace(options, schedule=options.schedule or ("none",))), **given)


def _report(outcome: Outcome, options: Tournament) -> None:
    from slipstream.cli.values import strict_json

    if options.json:
        print(strict_json(outcome.to_json()))
        return
    if options.quiet:
        return
    where = shlex.quote(outcome.directory)
    say = "Finished" if outcome.finished else "Stopped and saved"
    print(f"{say} after {outcome.seconds:.0f} s: {outcome.submissions} agents.")
    if outcome.winner is None:
        print(f"No agent was submitted. Go on with: slipstream tournament --resume {where}")
        return
    for pool, leaders in outcome.leaders.items():
        print(f"{pool}: agent {leaders[0].id} leads with {leaders[0].score:.2f} +- {leaders[0].standard_error:.2f}")
    for name, judged in (("The winner", outcome.winner), ("The ensemble", outcome.ensemble)):
        if judged is not None:
            scores = ", ".join(
                f"{g} {s.mean:.2f} +- {s.standard_error:.2f}" for g, s in judged.evaluation.groups.items()
            )
            print(f"{name} on {judged.evaluation.episodes} new episodes: {scores} ({judged.run})")
    if outcome.overhead:
        median, largest = outcome.overhead["median"], outcome.overhead["largest"]
        print(
            f"A pod costs {median:.2f} s beside training and judging (at most {largest:.2f} s), after its first agent."
        )
    _show_league(outcome.league)
    again = f"slipstream eval {shlex.quote(outcome.winner.run)}"
    print(f"Go on with: {again if outcome.finished else f'slipstream tournament --resume {where}'}")
    print(f"Who came from whom: slipstream plot --lineage {where}")


def _show_league(league: list[dict[str, Any]]) -> None:
    from rich.console import Console

    from slipstream.tournament.view import league_table

    for found in league:
        Console().print(league_table(found))


def _change(options: Scale | Pause | Resume) -> int:
    from slipstream.cli.values import strict_json
    from slipstream.tournament.tournament import board_of

    _, board = board_of(options.directory)
    if isinstance(options, Scale):
        if options.pods < 1:
            raise ValueError(f"--pods must be at least 1, got {options.pods} (pause stops all).")
        board.change(pods=options.pods)
        said = f"{options.directory} is to have {options.pods} pods."
    else:
        paused = isinstance(options, Pause)
        board.change(paused=paused)
        said = f"{options.directory} starts no more agents." if paused else f"{options.directory} goes on."
    if options.json:
        print(strict_json(dataclasses.asdict(board.control())))
    else:
        print(said)
    board.close()
    return 0


def _show_leaderboard(options: Board) -> int:
    from slipstream.cli.values import strict_json
    from slipstream.tournament.tournament import board_of

    if options.top < 1:
        raise ValueError(f"--top must be at least 1, got {options.top}.")
    plan, board = board_of(options.directory)
    found = _leaderboard(plan, board, options.top)
    if options.json:
        print(strict_json(found))
        return 0
    from rich.console import Console

    from slipstream.tournament.view import leaders_table

    control = board.control()
    state = "paused" if control.paused else "stopping or over" if control.stopping else "running"
    print(f"{plan.train.env}: {state}, {control.elapsed:.0f} s, {found['submissions']} agents, {control.pods} pods")
    for pool in plan.pools:
        Console().print(leaders_table(pool, board.top(pool, options.top, kept_only=plan.league)))
    _show_league(found["league"])
    board.close()
    return 0


def _leaderboard(plan: Plan, board: Leaderboard, top: int) -> dict[str, Any]:
    from slipstream.tournament.league import who_beats_whom

    leaders = {pool: board.top(pool, top, kept_only=plan.league) for pool in plan.pools}
    return {
        "env": plan.train.env,
        "control": dataclasses.asdict(board.control()),
        "submissions": board.count(),
        "at_work": board.at_work(),
        "leaders": {
            pool: [{"rank": rank, **entry.to_json()} for rank, entry in enumerate(entries, 1)]
            for pool, entries in leaders.items()
        },
        "league": who_beats_whom(board.matches(), leaders) if plan.league else [],
    }
