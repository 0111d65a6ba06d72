"""Metrics to Weights & Biases and MLflow: by the calls of their documentation, and by themselves if installed."""

import importlib.util
import json
import sys
from types import ModuleType, SimpleNamespace

import pytest

import slipstream
from slipstream.runs.trackers import flat

OPTIONS = dict(num_worlds=8, rollout_length=4, hidden=(8,), total_steps=256, report_every=0.0, quiet=True)


class FakeWandb(ModuleType):
    """`wandb.init` and the run it returns."""

    def __init__(self):
        super().__init__("wandb")
        self.__spec__ = SimpleNamespace(name="wandb")
        self.runs = []

    def init(self, **arguments):
        run = SimpleNamespace(id=arguments["id"] or "id-1", arguments=arguments, rows=[], finished=0)
        run.log = lambda values, step: run.rows.append((step, values))
        run.finish = lambda: setattr(run, "finished", run.finished + 1)
        self.runs.append(run)
        return run


class FakeClient:
    """`mlflow.tracking.MlflowClient`, with all clients looking at the same runs."""

    runs: dict = {}
    experiments: dict = {}

    def get_experiment_by_name(self, name):
        known = self.experiments.get(name)
        return None if known is None else SimpleNamespace(experiment_id=known)

    def create_experiment(self, name):
        self.experiments[name] = name
        return name

    def create_run(self, experiment_id, run_name=None):
        run_id = f"run-{len(self.runs)}"
        self.runs[run_id] = {"metrics": [], "params": [], "status": "RUNNING"}
        return SimpleNamespace(info=SimpleNamespace(run_id=run_id))

    def update_run(self, run_id, status=None):
        self.runs[run_id]["status"] = status

    def log_batch(self, run_id, metrics=(), params=()):
        self.runs[run_id]["metrics"] += metrics
        self.runs[run_id]["params"] += params

    def set_terminated(self, run_id):
        self.runs[run_id]["status"] = "FINISHED"


@pytest.fixture
def wandb(monkeypatch):
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    return fake


@pytest.fixture
def mlflow(monkeypatch):
    modules = {name: ModuleType(name) for name in ("mlflow", "mlflow.entities", "mlflow.tracking")}
    entities, tracking = modules["mlflow.entities"], modules["mlflow.tracking"]
    entities.Metric = lambda key, value, timestamp, step: (key, value, step)
    entities.Param = lambda key, value: (key, value)
    monkeypatch.setattr(FakeClient, "runs", {})
    monkeypatch.setattr(FakeClient, "experiments", {})
    tracking.MlflowClient = FakeClient
    for name, module in modules.items():
        module.__spec__ = SimpleNamespace(name=name)
        monkeypatch.setitem(sys.modules, name, module)
    return FakeClient


def test_both_are_told_what_the_run_writes_down_and_a_resumed_run_goes_on_there(wandb, mlflow, tmp_path):
    run = tmp_path / "run"
    slipstream.train("cartpole", run=run, log=("wandb", "mlflow"), **OPTIONS)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    (first,) = wandb.runs
    assert [step for step, _ in first.rows] == [row["step"] for row in rows] and first.finished == 1
    assert first.rows[-1][1]["cart/entropy"] == pytest.approx(rows[-1]["cart/entropy"])
    assert first.arguments["config"]["env"] == "cartpole" and first.arguments["resume"] == "allow"
    (there,) = mlflow.runs.values()
    assert ("cart/entropy", pytest.approx(rows[-1]["cart/entropy"]), 256) in there["metrics"]
    assert ("policies.cart.settings.hidden", "(8,)") in there["params"] and there["status"] == "FINISHED"
    slipstream.train(resume=run, total_steps=384, quiet=True)
    assert wandb.runs[1].arguments["id"] == first.id and len(mlflow.runs) == 1
    assert max(step for _, _, step in there["metrics"]) == 384 and there["status"] == "FINISHED"


def test_a_tracker_that_fails_is_told_once_and_the_run_goes_on(wandb, tmp_path):
    def refuse(**arguments):
        raise ConnectionError("nobody\nthere")

    wandb.init = refuse
    result = slipstream.train("cartpole", run=tmp_path / "run", log=("wandb",), **OPTIONS)
    assert result.finished
    log = (tmp_path / "run" / "log.txt").read_text()
    assert log.count("wandb takes no more metrics: nobody there") == 1


def test_an_unknown_tracker_is_refused_before_anything_is_made(tmp_path):
    with pytest.raises(ValueError, match="no tracker 'comet': choose from wandb, mlflow"):
        slipstream.train("cartpole", run=tmp_path / "run", log=("comet",), **OPTIONS)
    assert not (tmp_path / "run").exists()


def test_one_that_is_not_installed_is_refused_with_the_command(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install slipstream-rl\[mlflow\]"):
        slipstream.train("cartpole", run=tmp_path / "run", log=("mlflow",), **OPTIONS)


def test_settings_have_dotted_names():
    assert flat({"a": 1, "b": {"c": {"d": 2}}}) == {"a": 1, "b.c.d": 2}


@pytest.mark.slow
def test_weights_and_biases_itself_writes_an_offline_run(monkeypatch, tmp_path):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    slipstream.train("cartpole", run=tmp_path / "run", log=("wandb",), **OPTIONS)
    assert list((tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb"))
    assert "no more" not in (tmp_path / "run" / "log.txt").read_text()


@pytest.mark.slow
def test_mlflow_itself_writes_a_local_run(monkeypatch, tmp_path):
    tracking = pytest.importorskip("mlflow.tracking")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    slipstream.train("cartpole", run=tmp_path / "run", log=("mlflow",), **OPTIONS)
    client = tracking.MlflowClient()
    experiment = client.get_experiment_by_name("slipstream")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED" and "cart/entropy" in run.data.metrics
