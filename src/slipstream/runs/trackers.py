"""Metrics to Weights & Biases and to MLflow, for those who ask for it: sinks like those of `metrics`.

Where they go (a server, or files of their own) is said as their own documentation has it, in the environment:
`WANDB_MODE`, `WANDB_PROJECT`, `MLFLOW_TRACKING_URI`, `MLFLOW_EXPERIMENT_NAME`. A run keeps its id there in
`trackers.json`, so that one which is resumed goes on in the same place. What goes wrong there is told once, and no
reason for a run to end.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from slipstream.runs.directory import RunDirectory, write_atomically

PACKAGES = {"wandb": "wandb", "mlflow": "mlflow"}
"""Names of the trackers, and what must be installed for each."""

PROJECT = "slipstream"
"""Where runs go if the environment names no project or experiment."""


class Service(Protocol):
    """What each of them can do."""

    def send(self, step: int, values: Mapping[str, float]) -> None: ...

    def end(self) -> None: ...


def check_trackers(names: Sequence[str]) -> None:
    """Refuse trackers that there are not, or that are not installed."""
    for name in names:
        if name not in PACKAGES:
            raise ValueError(f"There is no tracker {name!r}: choose from {', '.join(PACKAGES)}.")
        if importlib.util.find_spec(PACKAGES[name]) is None:
            raise ValueError(f"--log {name} needs {PACKAGES[name]}: pip install slipstream-rl[{name}]")


class Tracker:
    """A sink for one of them."""

    def __init__(self, name: str, run: RunDirectory, config: Mapping[str, Any], warn: Callable[[str], None]):
        """Args:
        name: which one.
        run: whose metrics.
        config: its configuration.
        warn: is told, once, what goes wrong.
        """
        self._name, self._warn = name, warn
        self._service: Service | None = None
        with self._guarded():
            known = _ids(run)
            make = {"wandb": WeightsAndBiases, "mlflow": MLflow}[name]
            service = make(run, config, known.get(name))
            write_atomically(run.trackers, json.dumps({**known, name: service.id}) + "\n")
            self._service = service

    def report(self, row: Mapping[str, float]) -> None:
        if self._service is not None:
            finite = {n: float(v) for n, v in row.items() if n not in ("step", "iteration") and math.isfinite(v)}
            with self._guarded():
                self._service.send(int(row["step"]), finite)

    def close(self) -> None:
        if self._service is not None:
            with self._guarded():
                self._service.end()

    def _guarded(self) -> _Guard:
        return _Guard(self)

    def give_up(self, error: BaseException) -> None:
        """No more of this."""
        self._service = None
        text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        self._warn(f"{self._name} takes no more metrics: {text}. The run goes on; metrics.jsonl has them all")


class _Guard:
    """Inside, an error is told and the tracker given up."""

    def __init__(self, tracker: Tracker):
        self._tracker = tracker

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if isinstance(error, Exception):
            self._tracker.give_up(error)
            return True
        return False


def _ids(run: RunDirectory) -> dict[str, str]:
    try:
        return dict(json.loads(run.trackers.read_text()))
    except (OSError, ValueError):
        return {}


class WeightsAndBiases:
    """A run of Weights & Biases."""

    def __init__(self, run: RunDirectory, config: Mapping[str, Any], earlier: str | None):
        import wandb  # pyright: ignore[reportMissingImports]

        self._run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=run.path.name,
            dir=str(run.path),
            config=dict(config),
            id=earlier,
            resume="allow",
        )
        self.id: str = self._run.id

    def send(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def end(self) -> None:
        self._run.finish()


class MLflow:
    """A run of MLflow."""

    def __init__(self, run: RunDirectory, config: Mapping[str, Any], earlier: str | None):
        from mlflow.entities import Metric, Param  # pyright: ignore[reportMissingImports]
        from mlflow.tracking import MlflowClient  # pyright: ignore[reportMissingImports]

        self._metric, self._client = Metric, MlflowClient()
        if earlier is not None:
            self._client.update_run(earlier, status="RUNNING")
            self.id = earlier
            return
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        found = self._client.get_experiment_by_name(name)
        experiment = self._client.create_experiment(name) if found is None else found.experiment_id
        self.id: str = self._client.create_run(experiment, run_name=run.path.name).info.run_id
        self._client.log_batch(self.id, params=[Param(n, str(v)[:6000]) for n, v in flat(config).items()])

    def send(self, step: int, values: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        self._client.log_batch(self.id, metrics=[self._metric(n, v, now, step) for n, v in values.items()])

    def end(self) -> None:
        self._client.set_terminated(self.id)


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by dotted names."""
    named: dict[str, Any] = {}
    for name, value in config.items():
        named |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return named
