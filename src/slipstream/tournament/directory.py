"""The directory of a tournament: what it is, where its leaderboard and its agents are, and what came out."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Any

from slipstream.runs.directory import RunDirectory, RunError, new_run_name, write_atomically, writing
from slipstream.runs.sealed import seal, unseal
from slipstream.tournament.plan import Plan

FORMAT = 1
"""Version of the directory's layout."""

PLAN, RESULT, DATABASE, AGENTS = "tournament.json", "result.json", "leaderboard.sqlite", "agents"
WINNER, ENSEMBLE, OUTPUT = "winner", "ensemble", "driver.log"


class TournamentDirectory:
    """A tournament on disk. Reading needs no lock; `claim` before driving it."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._lock = RunDirectory(self.path)

    @staticmethod
    def create(path: str | Path, plan: Plan) -> TournamentDirectory:
        """A new one, claimed by this process; the directory may exist, but must be empty."""
        made = TournamentDirectory(path)
        if made.exists():
            raise RunError(
                f"{path} already holds a tournament. Go on with it: slipstream tournament --resume "
                f"{shlex.quote(str(path))}, or choose another --run directory."
            )
        with writing(made.path, "create"):
            made.path.mkdir(parents=True, exist_ok=True)
            if (foreign := next(made.path.iterdir(), None)) is not None:
                raise RunError(f"{path} is not empty ({foreign.name} is in it). Choose another --run directory.")
        made.claim()
        write_atomically(made.path / PLAN, seal({"format": FORMAT, "plan": plan.to_json()}))
        return made

    @staticmethod
    def open(path: str | Path) -> TournamentDirectory:
        made = TournamentDirectory(path)
        if not made.exists():
            raise RunError(f"{path} is no tournament's directory: it has no {PLAN}.")
        made.plan()
        return made

    def exists(self) -> bool:
        return (self.path / PLAN).exists()

    def plan(self) -> Plan:
        file = self.path / PLAN
        try:
            content = unseal(file.read_bytes())
        except (OSError, ValueError) as error:
            raise RunError(f"{file} is damaged: {error}.") from error
        if content.get("format") != FORMAT:
            raise RunError(f"{file} has format {content.get('format')!r}; this version of Slipstream reads {FORMAT}.")
        return Plan.of(content["plan"])

    def change(self, plan: Plan) -> None:
        write_atomically(self.path / PLAN, seal({"format": FORMAT, "plan": plan.to_json()}))

    def claim(self) -> None:
        """Take the tournament for this process, until it ends."""
        self._lock.claim()

    def release(self) -> None:
        self._lock.release()

    def remove(self) -> None:
        """Take it all away, of a tournament that never began."""
        self.release()
        shutil.rmtree(self.path)

    def log(self, message: str) -> None:
        self._lock.log(message)

    @property
    def winner(self) -> Path:
        return self.path / WINNER

    @property
    def ensemble(self) -> Path:
        return self.path / ENSEMBLE

    @property
    def output(self) -> Path:
        """What Ray and the process that drives the tournament have said."""
        return self.path / OUTPUT

    def write_result(self, result: dict[str, Any]) -> None:
        write_atomically(self.path / RESULT, seal(result))


def new_directory(plan: Plan, runs: str) -> Path:
    """Where a tournament goes when no directory is named."""
    train = plan.train
    name = new_run_name(train.env, train.policies[plan.pools[0]].algo, train.seed)
    return Path(runs) / f"{name.removesuffix(f'-seed{train.seed}')}-tournament"


def at_home(plan: Plan, path: Path) -> dict[str, str]:
    """The database and the storage of a tournament that names none: in its own directory."""
    home = path.resolve()
    return {
        "database": plan.database or f"sqlite:///{home / DATABASE}",
        "storage": plan.storage or str(home / AGENTS),
    }
