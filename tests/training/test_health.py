"""Training that has gone wrong says so: once, loudly, and before nothing is left to save."""

import json

import numpy as np
import pytest

import slipstream
from slipstream.cli.main import main
from slipstream.runs.directory import RunDirectory
from slipstream.training.api import train
from slipstream.training.health import HOPELESS, Health, TrainingFailed

ROW = {"broken_worlds": 0.0, "walker/steps_skipped": 0.0, "walker/updates_skipped_in_a_row": 0.0}


def test_each_sign_is_told_once():
    said: list[str] = []
    health = Health(said.append)
    health.examine(ROW)
    assert said == []
    for _ in range(3):
        health.examine({**ROW, "broken_worlds": 3.0, "walker/observations_not_finite": 17.0})
    assert len(said) == 2
    assert said[0].startswith("3 worlds were reset because their state was not finite")
    assert said[1].startswith("17 observations of policy 'walker' were not finite")


def test_what_a_world_leaves_out_is_told_once():
    said: list[str] = []
    health = Health(said.append)
    for value in (0.0, float("nan"), 0.25, 3.0):
        health.examine({**ROW, "report/contacts_left_out": value})
    assert said == ["0.25 contacts were left out per episode; raise self_contacts. Metrics count it from now on."]


def test_a_run_that_learns_nothing_finite_is_given_up():
    health = Health(lambda text: None)
    health.examine({**ROW, "walker/updates_skipped_in_a_row": HOPELESS - 1})
    with pytest.raises(TrainingFailed, match="Policy 'walker' has not learned anything finite"):
        health.examine({**ROW, "walker/updates_skipped_in_a_row": HOPELESS})


@pytest.fixture
def poisoned(make_config):
    """A run in a world whose observations are not numbers, long enough to be given up."""
    return make_config("Poisoned", ("agent",), total_steps=200 * 16, report_every=0.0)


def test_observations_that_are_not_finite_are_warned_of_and_end_the_run_with_its_weights_saved(poisoned, tmp_path):
    with pytest.raises(TrainingFailed, match="has not learned anything finite"):
        train(poisoned, run=tmp_path / "run", quiet=True)
    log = (tmp_path / "run" / "log.txt").read_text()
    assert log.count("observations of policy 'agent' were not finite") == 1
    assert slipstream.metrics(tmp_path / "run")["agent/observations_not_finite"][0] > 0
    policy = slipstream.load(str(tmp_path / "run"))
    assert np.isfinite(policy.actor.policy.body.layers[0].weight).all()
    assert "failed at step" in (RunDirectory.open(tmp_path / "run").path / "log.txt").read_text()


def test_the_command_exits_with_1_and_one_line(poisoned, tmp_path, capsys):
    command = ["train", poisoned.env, "--worlds", "4", "--rollout", "4", "--steps", "4000", "--set", "hidden=[8]"]
    assert main([*command, "--run", str(tmp_path / "run")]) == 1
    shown = capsys.readouterr().err
    assert "slipstream train: Policy 'agent' has not learned anything finite" in shown
    assert shown.count("Warning:") >= 1


def test_agents_to_whom_nothing_is_allowed_are_counted(make_config, tmp_path):
    train(make_config("Speechless", ("agent",), report_every=0.0), run=tmp_path / "run", quiet=True)
    assert slipstream.metrics(tmp_path / "run")["agent/nothing_allowed"].sum() > 0
    assert "allowed agents of policy 'agent' nothing at all" in (tmp_path / "run" / "log.txt").read_text()


def test_training_and_evaluation_warn_of_what_is_left_out(make_config, tmp_path, capsys):
    train(make_config("Hasty", ("agent",), report_every=0.0), run=tmp_path / "run", quiet=True)
    assert slipstream.metrics(tmp_path / "run")["report/collisions_left_out"][-1] == 2.0
    assert "2 collisions were left out per episode. " in (tmp_path / "run" / "log.txt").read_text()
    assert main(["eval", str(tmp_path / "run"), "--episodes", "4", "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.err == "Warning: 2 collisions were left out per episode.\n"
    assert json.loads(shown.out)["report"]["collisions_left_out"] == 2.0


def test_rewards_that_are_not_finite_are_counted_and_warned_of(make_config, tmp_path):
    train(make_config("Unpaid", ("agent",), report_every=0.0), run=tmp_path / "run", quiet=True)
    found = slipstream.metrics(tmp_path / "run")
    assert found["rewards_not_finite/agent"].tolist() == [8.0] * 5, "every other of 4 steps in 4 worlds"
    assert np.isfinite(found["agent/value_loss"]).all()
    assert "in 8 steps a reward of group 'agent' was not finite" in (tmp_path / "run" / "log.txt").read_text()
