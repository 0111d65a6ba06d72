"""Evaluation: exactly one episode per world, and the same ones every time."""

import pytest

from slipstream.envs.registry import make
from slipstream.runs.directory import RunDirectory
from slipstream.runs.metrics import read_metrics
from slipstream.training.api import train
from slipstream.training.evaluate import Judge, evaluate
from slipstream.training.fused import FusedTrainer
from slipstream.training.play import WorldsArena


@pytest.mark.parametrize("explore", [False, True])
def test_every_world_counts_with_exactly_one_episode(make_config, explore):
    """`Counter` pays 1 per step, and the length of its episodes is known from their start."""
    config = make_config("Counter", ("agent",))
    trainer = FusedTrainer(config)
    worlds = make(config.env, 50, seed=8)
    worlds.reset()
    # What will be played are the second episodes: the evaluation begins with a reset.
    probe = make(config.env, 50, seed=8)
    probe.reset()
    probe.reset()
    lengths = (probe.get_state()["x"] // 1 + 1).astype(int)
    result = evaluate(trainer.policies, trainer.actors, WorldsArena(worlds), explore=explore)
    assert result.episodes == 50
    score = result.groups["agent"]
    assert result.length == pytest.approx(lengths.mean()) and score.mean == pytest.approx(lengths.mean())
    assert (score.minimum, score.maximum) == (lengths.min(), lengths.max()) == (1, 5)
    assert score.standard_error == pytest.approx(lengths.std(ddof=1) / 50**0.5)


def test_a_run_judges_all_its_policies_by_the_same_episodes(make_config):
    trainer = FusedTrainer(make_config("Counter", ("agent",), evaluate_episodes=20))
    judge = Judge(trainer.config, trainer.policies)
    first = judge(trainer.actors)
    trainer.iterate()
    assert judge(trainer.actors) == first


def test_evaluating_does_not_disturb_training(make_config, same):
    a, b = (FusedTrainer(make_config(evaluate_episodes=3)) for _ in range(2))
    judge = Judge(b.config, b.policies)
    for _ in range(2):
        a.iterate()
        b.iterate()
        judge(b.actors)
    assert same(a.save()[0], b.save()[0])


def test_planned_evaluations_are_in_the_metrics(make_config, tmp_path):
    config = make_config(evaluate_every=2, evaluate_episodes=3, report_every=0.0)
    result = train(config, run=tmp_path / "run", quiet=True)
    rows = read_metrics(RunDirectory.open(tmp_path / "run"))
    assert [row["iteration"] for row in rows if "evaluation/walker" in row] == [2, 4]
    assert rows[3]["evaluation/walker"] == result.evaluation.groups["walker"].mean


@pytest.mark.parametrize("evaluate_every", [None, 1])
def test_a_run_ends_when_an_evaluation_reaches_the_goal(make_config, tmp_path, evaluate_every):
    config = make_config(
        "Counter", ("agent",), stop_at_return=1.0, total_steps=1000 * 16, evaluate_every=evaluate_every
    )
    result = train(config, run=tmp_path / "run", quiet=True)
    assert result.finished and result.step < 10 * 16
    assert result.evaluation.groups["agent"].mean >= 1.0


def test_a_goal_out_of_reach_does_not_end_a_run(make_config, tmp_path):
    config = make_config("Counter", ("agent",), stop_at_return=5.5, evaluate_episodes=5, evaluate_every=1)
    result = train(config, run=tmp_path / "run", quiet=True)
    assert result.finished and result.step == 5 * 16
    assert result.evaluation.groups["agent"].mean < 5.5
