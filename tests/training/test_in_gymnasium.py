"""A policy of ours in Gymnasium's own environments, and the table with both returns."""

from __future__ import annotations

import json

import numpy as np
import pytest

from slipstream.cli.main import main
from slipstream.envs.registry import NAMES, env_class, make_env
from slipstream.runs.directory import RunDirectory
from slipstream.spaces import Box, Discrete
from slipstream.training.api import train
from slipstream.training.in_gymnasium import evaluate_in_gymnasium, match
from slipstream.training.loading import load, load_policies

gymnasium = pytest.importorskip("gymnasium")
SMALL = {"num_worlds": 8, "rollout_length": 4, "total_steps": 32, "quiet": True, "settings": {"hidden": [8]}}


@pytest.mark.parametrize("name", [n for n in NAMES if env_class(n).gymnasium_id])
def test_every_counterpart_exists_and_fits(name):
    env = make_env(name)
    chosen = match(env, {})
    theirs = gymnasium.make(chosen.id, **chosen.kwargs)
    group = env.groups[0]
    assert theirs.observation_space.shape == (group.observation.size,)
    if isinstance(group.action, Discrete):
        assert theirs.action_space.n == group.action.n
    else:
        assert isinstance(group.action, Box)
        assert theirs.action_space.shape == (group.action.size,)
    assert theirs.spec.max_episode_steps == env.max_steps


def test_options_that_gymnasium_knows_are_handed_on():
    options = {"ctrl_cost_weight": 0.3, "integrator": "euler", "random_mass": 0.1}
    chosen = match(make_env("ant", **options), options)
    assert chosen.kwargs == {"include_cfrc_ext_in_observation": False, "ctrl_cost_weight": 0.3}
    assert chosen.ignored == ("integrator", "random_mass")


def test_a_world_without_a_counterpart_says_so():
    with pytest.raises(ValueError, match="gymnasium_id"):
        match(make_env("tag-continuous"), {})
    assert env_class("tag-continuous").gymnasium_id is None


@pytest.fixture(scope="module")
def cartpole_run(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("runs") / "cartpole"
    train("cartpole", run=path, **SMALL)
    return str(path)


def test_returns_are_the_sums_of_gymnasiums_rewards(cartpole_run):
    policy = load(cartpole_run, checkpoint="latest")
    policies, actors = load_policies(RunDirectory.open(cartpole_run), "latest")
    found = evaluate_in_gymnasium(policies, actors, match(make_env("cartpole"), {}), 3, seed=5)
    returns = []
    for seed in (5, 6, 7):
        env = gymnasium.make("CartPole-v1")
        observation, _ = env.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(int(policy.act(observation)))
            total += reward
            over = terminated or truncated
        returns.append(total)
    assert found.groups["cart"].mean == pytest.approx(np.mean(returns))
    assert found.groups["cart"].minimum == min(returns)
    assert found.length == pytest.approx(np.mean(returns))
    assert found.report == {}


def test_a_robot_reports_its_speed_in_both_engines(tmp_path, capsys):
    train("hopper", run=tmp_path / "hopper", env_options={"integrator": "euler"}, **SMALL)
    capsys.readouterr()
    command = ["eval", str(tmp_path / "hopper"), "--in", "gymnasium", "--episodes", "4", "--checkpoint", "latest"]
    assert main([*command, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    here, there = result["groups"]["hopper"]["mean"], result["gymnasium"]["groups"]["hopper"]["mean"]
    assert there == pytest.approx(here, rel=0.5)
    assert np.isfinite(result["report"]["forward_speed"]) and np.isfinite(
        result["gymnasium"]["report"]["forward_speed"]
    )
    assert result["length_standard_error"] >= 0
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "Hopper-v5" in shown and "integrator" in shown


def test_evaluations_report_what_the_world_reports(tmp_path, capsys):
    train("reacher", run=tmp_path / "reacher", **SMALL)
    capsys.readouterr()
    command = ["eval", str(tmp_path / "reacher"), "--episodes", "6", "--checkpoint", "latest"]
    assert main([*command, "--json"]) == 0
    assert 0 < json.loads(capsys.readouterr().out)["report"]["final_distance"] < 1
    assert main(command) == 0
    assert "Final distance" in capsys.readouterr().out
