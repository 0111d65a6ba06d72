"""A pod trains, judges and submits; it goes on with weights and optimiser, and is stopped by what is wanted."""

import dataclasses
import json
import threading

import numpy as np
import pytest

from slipstream.algos.settings import PPOConfig, SACConfig
from slipstream.runs.checkpoint import load_checkpoint
from slipstream.runs.directory import RunDirectory, RunError
from slipstream.tournament.leaderboard import Fenced, Leaderboard
from slipstream.tournament.plan import Plan
from slipstream.tournament.pod import Job, Origin, Pod, from_plain, to_plain
from slipstream.training.config import FusedConfig, PipelineConfig, PolicyConfig, TrainConfig

SETTINGS = PPOConfig(hidden=(8,), epochs=2, minibatches=2, learning_rate=0.01)


def make_plan(folder, env: str = "cartpole", groups: tuple[str, ...] = ("cart",), **fields) -> Plan:
    policies = {g: PolicyConfig((g,), "ppo", SETTINGS) for g in groups}
    options = fields.pop("env_options", {})
    train = TrainConfig(env, policies, options, driver=FusedConfig(num_worlds=8, rollout_length=8), seed=3)
    usual = dict(quantum_seconds=None, quantum_steps=256, episodes=4, final_episodes=4, keep=2)
    usual |= dict(database=f"sqlite:///{folder}/leaderboard.sqlite", storage=f"{folder}/agents")
    return Plan(train, **{**usual, **fields})


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A pod that stays warm."""
    plan = make_plan(tmp_path_factory.mktemp("home"), keep=50)
    board = Leaderboard(plan.database, create=True)
    return board, Pod("pod-0", plan)


def job(board: Leaderboard, pool: str = "cart", seed: int = 1, **fields) -> Job:
    agent, epoch = board.begin("pod-0")
    return Job(agent, epoch, pool, seed, **{"settings": {}, **fields})


def test_an_agent_is_trained_judged_and_submitted(home):
    board, pod = home
    given = job(board, settings={"learning_rate": 0.005})
    report = pod.run(from_plain(to_plain(given)))
    entry = report.entry
    assert board.entry(given.agent) == entry and report.rank == 1
    assert entry.steps == entry.age == 256 and entry.settings == {"learning_rate": 0.005} and entry.parent is None
    assert entry.score > 0 and entry.standard_error > 0 and entry.episodes == 4
    run = RunDirectory.open(entry.weights)  # an agent is a run
    assert run.config()["policies"]["cart"]["settings"]["learning_rate"] == 0.005
    assert set(load_checkpoint(run).parts) == {"actor", "learner"}
    assert {"train", "evaluate", "save", "submit"} < set(report.times)


def test_weights_and_optimiser_are_inherited(home):
    board, pod = home
    parent = pod.run(job(board, seed=5)).entry
    child = pod.run(job(board, seed=6, parent=Origin.of(parent))).entry
    assert (child.parent, child.age, child.steps) == (parent.id, 512, 256)
    before, after = _learner(parent), _learner(child)
    assert after["cart/optimizer/adam/count"] == 2 * before["cart/optimizer/adam/count"] > 0
    assert after["cart/normalizer/count"] > before["cart/normalizer/count"]


def _learner(entry) -> dict:
    return load_checkpoint(RunDirectory.open(entry.weights)).part("learner")


def test_the_same_job_gives_the_same_agent_in_a_warm_pod_and_in_a_new_one(home, tmp_path):
    board, pod = home
    warm = pod.run(job(board, seed=9)).entry
    fresh_plan = make_plan(tmp_path)
    fresh = Leaderboard(fresh_plan.database, create=True)
    cold = Pod("pod-0", fresh_plan).run(job(fresh, seed=9)).entry
    assert warm.score == cold.score
    a, b = _learner(warm), _learner(cold)
    assert all(np.array_equal(a[name], b[name]) for name in a)


def test_who_does_not_enter_leaves_no_weights(tmp_path):
    plan = make_plan(tmp_path, keep=1)
    board = Leaderboard(plan.database, create=True)
    pod = Pod("pod-0", plan)
    reports = [pod.run(job(board, seed=seed)) for seed in range(4)]
    for report in reports[1:]:
        better = [r.entry.score for r in reports[: reports.index(report)]]
        assert (report.entry.weights is None) == (report.entry.score <= max(better)) == (report.rank > 1)


def test_a_pod_that_was_declared_dead_does_not_submit(home, monkeypatch):
    board, pod = home
    given = job(board)
    before = board.count()
    board.declare_dead("pod-0")
    with pytest.raises(Fenced, match="too late"):
        pod.run(given)
    monkeypatch.setattr("slipstream.tournament.pod.GLANCE", 0.0)
    assert pod.run(given).entry is None  # it notices while it trains
    assert board.count() == before


def test_a_tournament_that_stops_gets_what_there_is(tmp_path, monkeypatch):
    monkeypatch.setattr("slipstream.tournament.pod.GLANCE", 0.05)
    plan = make_plan(tmp_path, quantum_steps=10**9)
    board = Leaderboard(plan.database, create=True)
    waiting = threading.Timer(1.0, lambda: board.change(stopping=True))
    waiting.start()
    entry = Pod("pod-0", plan).run(job(board)).entry
    waiting.join()
    assert entry is not None and 0 < entry.steps < 10**9


def test_damaged_weights_are_a_clear_error(home, tmp_path):
    board, pod = home
    pod.run(job(board, seed=5))
    kept = board.top("cart", 1, kept_only=True)[0]
    with pytest.raises(RunError, match="damaged"):
        pod.run(job(board, parent=dataclasses.replace(Origin.of(kept), checksum="0" * 64)))
    with pytest.raises(RunError, match="gone or incomplete"):
        pod.run(job(board, parent=dataclasses.replace(Origin.of(kept), path=str(tmp_path / "none"))))


def test_training_never_sees_the_seeds_of_judgement(tmp_path):
    for seed in (0, 3, 2**31, -7):
        plan = make_plan(tmp_path)
        plan = dataclasses.replace(plan, train=dataclasses.replace(plan.train, seed=seed))
        assert 2**30 <= plan.ranking_seed < plan.final_seed < 2**31 and plan.final_seed - plan.ranking_seed >= 2**29


def test_a_league_plays_matches_and_rates(tmp_path):
    options = {"num_taggers": 2}
    plan = make_plan(tmp_path, "tag-gridworld", ("tagger", "runner"), env_options=options, opponents=2)
    board = Leaderboard(plan.database, create=True)
    pod = Pod("pod-0", plan)
    tagger = pod.run(job(board, "tagger")).entry
    runners = [pod.run(job(board, "runner", seed=s, opponents=({"tagger": Origin.of(tagger)},))).entry for s in (2, 3)]
    assert all(r.weights for r in runners) and board.pools() == ["runner", "tagger"]
    both = tuple({"runner": Origin.of(r)} for r in runners)
    last = pod.run(job(board, "tagger", parent=Origin.of(tagger), opponents=both)).entry
    played = board.matches([last.id])
    assert [m.others for m in played] == [{"runner": r.id} for r in runners] and last.episodes == 8
    # The same match is in the table from the other side.
    mirrored = [m for m in board.matches([r.id for r in runners]) if m.others == {"tagger": last.id}]
    assert [m.score for m in mirrored] == [m.against["runner"] for m in played]
    # The weights of the other side are there, and were not trained.
    actors = [load_checkpoint(RunDirectory.open(e.weights)).part("actor") for e in (last, runners[1])]
    same = [np.array_equal(actors[0][n], actors[1][n]) for n in actors[1] if n.startswith("runner/")]
    assert same and all(same)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (dict(pods=0), "pods must be at least 1"),
        (dict(minutes=None), "A tournament needs an end"),
        (dict(quantum_steps=None), "A quantum needs an end"),
        (dict(minutes=-1), "minutes must be positive"),
        (dict(episodes=1), "episodes must be at least 2"),
        (dict(fresh=1.5), "fresh must be within 0 .. 1"),
        (dict(cpus_per_pod=0.0), "cpus_per_pod must be positive"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(tmp_path, fields, message):
    with pytest.raises(ValueError, match=message):
        make_plan(tmp_path, **fields)


def test_a_plan_survives_json(tmp_path):
    plan = make_plan(tmp_path, generator="pbt", agents=4)
    assert Plan.of(json.loads(json.dumps(plan.to_json()))) == plan


@pytest.mark.parametrize(
    ("env", "algo", "settings"),
    [
        pytest.param("gym:CartPole-v1", "ppo", SETTINGS, marks=pytest.mark.slow),
        ("gym:Pendulum-v1", "sac", SACConfig(hidden=(8,), batch_size=16, warm_up=64, replay_size=2048)),
    ],
)
def test_processes_and_kernels_of_the_pipeline_are_kept_and_nothing_else_is(tmp_path, env, algo, settings):
    plan = make_plan(tmp_path, keep=9, quantum_steps=200)
    driver = PipelineConfig(samplers=1, envs_per_sampler=2, rollout_length=16, updates_per_iteration=1)
    train = TrainConfig(env, {"agent": PolicyConfig(("agent",), algo, settings)}, driver=driver, seed=3)
    plan = dataclasses.replace(plan, train=train)
    board = Leaderboard(plan.database, create=True)
    pod = Pod("pod-0", plan)
    first = pod.run(job(board, "agent", settings={"learning_rate": 1e-3})).entry
    (trainee,) = pod._trainees.values()
    trainer = trainee._trainer
    compiled, pids, waiting = trainer.learner._compiled, dict(trainer.crew.pids), trainer.crew.samples
    report = pod.run(job(board, "agent", seed=2, settings={"learning_rate": 2e-3}, parent=Origin.of(first)))
    second = report.entry
    assert (
        "start" in report.times and list(pod._trainees.values()) == [trainee] and trainer.learner._compiled is compiled
    )
    assert trainer.crew.pids == pids and list(pids) == ["sampler 0"]
    # What the first one has gone through is not what the second one learns from.
    own = trainer.crew.samples - waiting
    assert 200 <= second.steps <= own and second.age == first.age + second.steps
    if algo == "sac":
        assert trainer.feed.ring.written <= own
    config = RunDirectory.open(second.weights).config()
    assert config["policies"]["agent"]["settings"]["learning_rate"] == 2e-3 and config["seed"] == 2
    counts = [next(v for k, v in _learner(e).items() if k.endswith("count") and "optim" in k) for e in (first, second)]
    assert counts[1] > counts[0] > 0
    trainee.close()
    assert not trainer.crew.pids
