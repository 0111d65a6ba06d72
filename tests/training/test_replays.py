"""Learning from replay in the fused loop: what is remembered, when it is learned from, and how it is kept."""

import dataclasses

import jax
import numpy as np
import pytest

from slipstream.runs.checkpoint import load_checkpoint
from slipstream.runs.directory import RunDirectory
from slipstream.training.api import train
from slipstream.training.fused import FusedTrainer


@pytest.mark.parametrize(("world", "group", "algo"), [("Walker", "walker", "dqn"), ("Pull", "hand", "sac")])
def test_remembering_and_learning_are_traced_once(make_config, world, group, algo):
    trainer = FusedTrainer(make_config(world, (group,), algo))
    one = trainer.replays._of[group]
    for _ in range(8):
        trainer.iterate()
    assert one.remember._cache_size() == one._learn._cache_size() == 1


@pytest.mark.parametrize("per_step", [1 / 64, 0.25, 3.0, 12.5])
def test_as_many_gradient_steps_are_taken_as_were_asked_for(make_config, policy, per_step):
    config = make_config(policies={"walker": policy("walker", algo="dqn", settings=dict(updates_per_step=per_step))})
    trainer = FusedTrainer(config)
    for _ in range(17):
        trainer.iterate()
    learning = 17 - 1  # after one iteration of 16 steps there are not enough yet
    taken = int(trainer.states["walker"].updates)
    assert learning * 16 * per_step - taken == pytest.approx(trainer.replays._of["walker"].owed)
    assert trainer.replays._of["walker"].owed < trainer.replays._of["walker"].updates


def test_nothing_is_learned_and_actions_are_random_until_enough_is_remembered(make_config, trained, same):
    config = make_config("Pull", ("hand",), "sac")
    fresh, young = trained(config, 0), trained(config, 1)
    assert same(fresh.states, young.states)
    assert bool(young.actors["hand"].untrained)
    assert not bool(trained(config, 3).actors["hand"].untrained)


@pytest.mark.parametrize(
    ("world", "group", "algo", "priority"), [("Walker", "walker", "dqn", 0.6), ("Pull", "hand", "sac", 0.0)]
)
def test_a_run_resumed_from_disk_ends_like_one_that_did_not_stop(
    make_config, policy, same, tmp_path, world, group, algo, priority
):
    policies = {group: policy(group, algo=algo, settings=dict(priority=priority))}
    config = make_config(world, policies=policies, total_steps=12 * 16)
    train(config, run=tmp_path / "whole", quiet=True)
    train(dataclasses.replace(config, total_steps=5 * 16), run=tmp_path / "parts", quiet=True)
    train(resume=tmp_path / "parts", quiet=True, total_steps=12 * 16)
    whole, parts = (load_checkpoint(RunDirectory(tmp_path / name), "latest") for name in ("whole", "parts"))
    for part in ("actor", "learner", "worlds", "replay"):
        assert same(whole.part(part), parts.part(part))


def test_a_run_that_did_not_save_its_replay_collects_a_new_one_before_it_learns_on(make_config, tmp_path, same):
    config = make_config("Pull", ("hand",), "sac", save_replay=False, total_steps=6 * 16)
    train(config, run=tmp_path / "run", quiet=True)
    before = load_checkpoint(RunDirectory(tmp_path / "run"), "latest")
    assert "replay" not in before.parts
    train(resume=tmp_path / "run", quiet=True, total_steps=7 * 16)
    after = load_checkpoint(RunDirectory(tmp_path / "run"), "latest")
    assert same(before.part("actor"), after.part("actor"))
    train(resume=tmp_path / "run", quiet=True, total_steps=20 * 16)
    assert not same(before.part("actor"), load_checkpoint(RunDirectory(tmp_path / "run"), "latest").part("actor"))


def test_policies_of_both_kinds_learn_side_by_side_though_agents_leave_and_choices_are_forbidden(make_config, policy):
    policies = {"red": policy("red", algo="dqn"), "blue": policy("blue", algo="ppo")}
    trainer = FusedTrainer(make_config("Duels", policies=policies))
    before = jax.tree.map(np.array, trainer.actors)
    for _ in range(6):
        metrics = trainer.iterate()
    assert set(metrics) == {"red", "blue"} and "critic_loss" in metrics["red"] and "value_loss" in metrics["blue"]
    for name in policies:
        changed = jax.tree.map(lambda a, b: not np.array_equal(a, b), before[name], trainer.actors[name])
        assert any(jax.tree.leaves(changed))
    remembered = trainer.replays._rings["red"]
    assert 0 < int(remembered.size) < 6 * 16 * 2  # some were out of the game


def test_one_policy_remembers_the_agents_of_all_its_groups(make_config, policy):
    trainer = FusedTrainer(make_config("Duels", policies={"both": policy("red", "blue", algo="dqn")}))
    trainer.iterate()
    assert 16 * 3 < int(trainer.replays._rings["both"].size) <= 16 * 5


@pytest.mark.parametrize(
    ("world", "group", "algo", "settings", "message"),
    [
        ("Walker", "walker", "sac", {}, r"bounded real numbers, not Discrete\(2\): take dqn"),
        ("Pull", "hand", "dqn", {}, r"choices, not Box\(1, -2 .. 2\): take sac"),
        ("Walker", "walker", "dqn", dict(replay_size=15, warm_up=9), "has 16 steps, more than its replay of 15 holds"),
    ],
)
def test_what_cannot_be_learned_from_replay_is_said_at_once(make_config, policy, world, group, algo, settings, message):
    with pytest.raises(ValueError, match=message):
        FusedTrainer(make_config(world, policies={group: policy(group, algo=algo, settings=settings)}))
