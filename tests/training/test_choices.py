"""Settings by their plain names: found wherever they belong, refused where nobody knows them."""

import pytest

from slipstream.algos.settings import A2CConfig, PPOConfig, SACConfig
from slipstream.envs.classic.cartpole import CartPole
from slipstream.envs.env import Env, Group
from slipstream.spaces import Box, Discrete
from slipstream.training.choices import default_config, with_changes


class Tuned(Env):
    """A world with options that are named like a setting of PPO and like a field of the run."""

    groups = (Group("agent", Box(1), Discrete(2)),)
    max_steps = 3

    def __init__(self, discount: float = 0.5, seed: int = 3, wind: float = 0.0):
        self.options = (discount, seed, wind)

    def reset(self, rng): ...

    def step(self, state, action, rng): ...

    def observe(self, state): ...


def test_plain_names_go_where_they_belong():
    config = default_config("tag-continuous", learning_rate=1e-4, hidden=(32, 32), num_worlds=7, seed=5, num_runners=9)
    assert {p.settings.learning_rate for p in config.policies.values()} == {1e-4}
    assert {p.settings.hidden for p in config.policies.values()} == {(32, 32)}
    assert (config.driver.num_worlds, config.seed, config.env_options["num_runners"]) == (7, 5, 9)


def test_what_is_not_changed_is_the_presets():
    config = default_config("cartpole", learning_rate=1e-4)
    (policy,) = config.policies.values()
    assert isinstance(policy.settings, PPOConfig) and policy.settings.discount == 0.98
    assert config.driver.num_worlds == 128


def test_an_ambiguous_name_is_refused_until_it_is_said_which_one_is_meant():
    with pytest.raises(ValueError, match=r"'discount' is ambiguous: it belongs to the algorithm and to the world"):
        default_config(Tuned, discount=0.9)
    with pytest.raises(ValueError, match=r"'seed' is ambiguous: it belongs to the run and to the world"):
        default_config(Tuned, seed=1)
    config = default_config(Tuned, settings={"discount": 0.9}, env_options={"seed": 4}, wind=2.0, seed=8)
    assert config.policies["agent"].settings.discount == 0.9
    assert config.env_options == {"seed": 4, "wind": 2.0} and config.seed == 8


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lerning_rate": 1e-3}, "Unknown setting 'lerning_rate': did you mean 'learning_rate'"),
        ({"learning_rate": "fast"}, "learning_rate must be a number, got 'fast'"),
        ({"num_worlds": 1.5}, "num_worlds must be a whole number, got 1.5"),
        ({"algo": "pppo"}, "Unknown algorithm 'pppo'"),
        ({"total_seconds": 5.0, "learning_rate_final": 0.0}, "is reached after total_steps: give those too"),
    ],
)
def test_what_makes_no_sense_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        default_config("cartpole", **changes)


def test_whoever_gives_a_time_wants_all_of_it():
    assert default_config("cartpole", total_seconds=5.0).total_steps is None
    both = default_config("cartpole", total_seconds=5.0, total_steps=100)
    assert (both.total_seconds, both.total_steps) == (5.0, 100)


def test_a_whole_configuration_can_be_changed_too():
    config = default_config("cartpole", algo="a2c")
    changed = with_changes(config, {"seed": 5, "rms_decay": 0.5, "rollout_length": 3})
    assert changed.seed == 5 and changed.driver.rollout_length == 3
    assert changed.policies["cart"].settings == A2CConfig(rms_decay=0.5)
    with pytest.raises(ValueError, match="Unknown setting 'clip_ratio'"):
        with_changes(config, {"clip_ratio": 0.1})


def test_a_class_and_an_object_are_worlds_as_well_as_a_name():
    assert default_config(CartPole) == default_config("cartpole")
    assert default_config(CartPole()).policies == default_config("cartpole").policies
    with pytest.raises(ValueError, match="Unknown setting 'wind'"):
        default_config(Tuned(), wind=1.0)


@pytest.mark.parametrize(("name", "worlds"), [("dm-walker-walk", 128), ("dm-humanoid-run", 256)])
def test_tasks_of_the_control_suite_learn_by_sac(name, worlds):
    config = default_config(name)
    (policy,) = config.policies.values()
    assert isinstance(policy.settings, SACConfig) and policy.settings.reward_scale == 1.0
    assert config.driver.num_worlds == worlds
