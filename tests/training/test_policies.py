"""Several policies in one run: shared, separate, frozen, loaded, and with settings of their own."""

import numpy as np
import pytest

from slipstream.envs.classic.cartpole import CartPole
from slipstream.envs.env import Group
from slipstream.runs.directory import RunError
from slipstream.spaces import Box, Discrete
from slipstream.training.config import PolicyConfig
from slipstream.training.fused import FusedTrainer
from slipstream.training.policies import check_policies
from slipstream.training.starting import with_opponents


def test_a_frozen_policy_acts_but_does_not_change(make_config, trained, policy, same):
    config = make_config("Duels", policies={"red": policy("red"), "blue": policy("blue", frozen=True)})
    fresh, trainer = FusedTrainer(config), trained(config, 1)
    assert set(trainer.iterate()) == {"red"}
    assert same(trainer.actors["blue"], fresh.actors["blue"]) and "blue" not in trainer.states
    assert not same(trainer.states["red"].network, fresh.states["red"].network)
    assert np.asarray(trainer.store.views["reward"]["blue"]).max() > 0.0
    # 2 iterations of 4 steps in 4 worlds, with 2 red agents who drop out now and then.
    assert 0 < float(trainer.states["red"].normalizer.count) <= 2 * 4 * 4 * 2
    assert trainer.policies._act._cache_size() == trainer.policies._update._cache_size() == 1
    assert trainer.worlds.engine.recordings == 1


def test_a_shared_policy_learns_from_all_who_are_in_the_game(make_config, policy):
    trainer = FusedTrainer(make_config("Duels", policies={"both": policy("red", "blue")}, rollout_length=8))
    trainer.iterate()
    views = trainer.store.views["active"]
    # Slot 0 already holds the next rollout's beginning; in this one's all were in the game.
    active = sum(int(np.asarray(views[g])[1:-1].sum()) for g in ("red", "blue")) + 4 * 5
    assert float(trainer.states["both"].normalizer.count) == active < 8 * 4 * 5


def test_a_masked_action_is_never_taken(make_config, trained, policy):
    """`Duels` pays 100 for what it forbids: had it ever been done, it would show."""
    config = make_config("Duels", policies={"both": policy("red", "blue", algo="a2c")}, num_worlds=16)
    trainer = trained(config, 3)
    for g in ("red", "blue"):
        reward, mask = np.asarray(trainer.store.views["reward"][g]), np.asarray(trainer.store.views["action_mask"][g])
        assert reward[1:].max() < 1.0 and reward[1:].max() > 0.0
        assert not mask[:, 2].all() and mask[:, :2].all()


@pytest.mark.parametrize("order", [("red", "blue"), ("blue", "red")])
def test_masks_of_one_group_hold_though_another_of_the_same_policy_has_none(make_config, trained, policy, order):
    trainer = trained(make_config("HalfMasked", policies={"both": policy(*order)}, num_worlds=16), 2)
    assert np.asarray(trainer.store.views["reward"]["blue"])[1:].max() < 1.0
    assert np.asarray(trainer.store.views["reward"]["red"])[1:].max() == 100.0
    assert trainer.policies._act._cache_size() == trainer.policies._update._cache_size() == 1


def test_policies_have_networks_algorithms_and_rates_of_their_own(make_config, policy):
    policies = {
        "red": policy("red", settings=dict(hidden=(4,), learning_rate=1e-3)),
        "blue": policy("blue", algo="a2c", settings=dict(hidden=(6, 5), learning_rate=2e-3, learning_rate_final=0.0)),
    }
    trainer = FusedTrainer(make_config("Duels", policies=policies))
    shapes = {n: [layer.weight.shape[0] for layer in s.network.policy.body.layers] for n, s in trainer.states.items()}
    assert shapes == {"red": [4, 3], "blue": [6, 5, 3]}
    trainer.iterate()
    rates = {name: float(metrics["learning_rate"]) for name, metrics in trainer.iterate().items()}
    assert rates == pytest.approx({"red": 1e-3, "blue": 2e-3 * (1 - 1 / 5)})


def test_a_loaded_opponent_acts_as_it_did_in_its_run_whatever_it_is(make_config, policy, save, same, tmp_path):
    """The opponent has another algorithm and another size than what it plays against."""
    there = {"red": policy("red"), "blue": policy("blue", algo="a2c", settings=dict(hidden=(5, 6)))}
    first = FusedTrainer(make_config("Duels", policies=there, seed=11))
    save(first, tmp_path / "first")
    opponents = {"mine": policy("red"), "theirs": policy("blue", frozen=True, load=f"{tmp_path / 'first'}:blue")}
    config = with_opponents(make_config("Duels", policies=opponents, seed=12))
    assert config.policies["theirs"].algo == "a2c" and config.policies["theirs"].settings.hidden == (5, 6)
    trainer = FusedTrainer(config)
    trainer.load_starting_points()
    assert same(trainer.actors["theirs"], first.actors["blue"])
    assert not same(trainer.actors["mine"], first.actors["red"])
    trainer.iterate()
    assert same(trainer.actors["theirs"], first.actors["blue"])


def test_a_policy_goes_on_with_all_it_has_learned_elsewhere(make_config, policy, trained, save, same, tmp_path):
    first = trained(make_config(), 2)
    save(first, tmp_path / "first")
    trainer = FusedTrainer(make_config(policies={"again": policy("walker", load=str(tmp_path / "first"))}))
    trainer.load_starting_points()
    assert same(trainer.states["again"], first.states["walker"])
    assert trainer.ages == {"again": 0}, "its schedules begin anew"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{}", "has several policies: choose one of red, blue"),
        ("{}:green", "has no policy 'green': choose one of red, blue"),
        ("{}/nothing", "There is no run directory"),
        ("{}:red", "does not fit"),
    ],
)
def test_an_opponent_that_cannot_be_loaded_is_explained(make_config, policy, save, tmp_path, source, message):
    save(FusedTrainer(make_config("Duels", policies={"red": policy("red"), "blue": policy("blue")})), tmp_path)
    wide = policy("red", settings=dict(hidden=(9,)), load=source.format(tmp_path))
    with pytest.raises(RunError, match=message):
        FusedTrainer(make_config("Duels", policies={"red": wide, "blue": policy("blue")})).load_starting_points()


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"a": ("red",)}, "No policy for group blue"),
        ({"a": ("red", "blue"), "b": ("blue",)}, "Group 'blue' has two policies, 'a' and 'b'"),
        ({"a": ("red", "blue"), "b": ("green",)}, "Policy 'b' names a group 'green'; the groups are red, blue"),
        ({"a": ("red", "blue"), "b": ()}, "Policy 'b' has no groups"),
    ],
)
def test_every_group_has_exactly_one_policy(make_config, groups, message):
    policies = {name: PolicyConfig(members) for name, members in groups.items()}
    with pytest.raises(ValueError, match=message):
        FusedTrainer(make_config("Duels", policies=policies))


def test_groups_with_other_spaces_cannot_share_a_policy():
    class Uneven(CartPole):
        groups = (Group("left", Box(2), Discrete(2)), Group("right", Box(3), Discrete(2)))

    with pytest.raises(ValueError, match="Policy 'all' cannot serve both 'left' and 'right': their spaces differ"):
        check_policies(Uneven.groups, {"all": PolicyConfig(("left", "right"))})
