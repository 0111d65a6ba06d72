"""`slipstream.load(run)`: a policy to act with."""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import slipstream
from slipstream.algos.algo import Inputs
from slipstream.runs.directory import RunDirectory, RunError
from slipstream.training.config_json import to_json
from slipstream.training.fused import FusedTrainer


@pytest.fixture
def saved(make_config, save, tmp_path):
    """`saved(world, *groups)`: a run with a checkpoint, and the trainer it is of."""

    def write(world: str, *groups: str, **fields):
        trainer = FusedTrainer(make_config(world, groups, **fields))
        return str(save(trainer, tmp_path / world).path), trainer

    return write


def test_a_discrete_policy_acts_for_one_agent_and_for_many(saved):
    run, trainer = saved("Walker", "walker")
    policy = slipstream.load(run)
    many = np.random.default_rng(0).normal(size=(2, 7)).astype(np.float32)
    actions = policy.act(many)
    assert actions.shape == (7,) and actions.dtype == np.int32 and set(actions) <= {0, 1}
    assert [int(policy.act(many[:, i])) for i in range(7)] == actions.tolist()
    assert policy.act(many[:, 0]).shape == ()
    act, key = trainer.policies.algorithms["walker"].act, jax.random.key(0)
    expected = act(trainer.actors["walker"], Inputs(jnp.asarray(many)), explore=False, key=key)
    np.testing.assert_array_equal(actions, expected.action[0])


def test_a_continuous_policy_acts_within_the_bounds(saved):
    run, _ = saved("Pull", "hand")
    policy = slipstream.load(run)
    many = np.random.default_rng(0).normal(size=(1, 200)).astype(np.float32)
    assert policy.act(many).shape == (1, 200) and policy.act(many[:, 0]).shape == (1,)
    explored = policy.act(many, explore=True)
    assert explored.min() >= -2.0 and explored.max() <= 2.0 and explored.std() > 0.5


def test_exploring_draws_anew_each_time_and_the_best_is_the_same(saved):
    run, _ = saved("Walker", "walker")
    policy = slipstream.load(run)
    many = np.zeros((2, 100), np.float32)
    assert not np.array_equal(policy.act(many, explore=True), policy.act(many, explore=True))
    np.testing.assert_array_equal(policy.act(many), policy.act(many))


def test_a_mask_is_respected(saved):
    run, _ = saved("Duels", "red", "blue")
    policy = slipstream.load(run, "blue")
    mask = np.zeros((3, 50), bool)
    mask[1] = True
    for explore in (False, True):
        assert set(policy.act(np.zeros((2, 50)), explore=explore, action_mask=mask)) == {1}
    assert policy.act(np.zeros(2), action_mask=[False, False, True]) == 2
    with pytest.raises(ValueError, match=r"action mask must be \[3, 50\] \(choices first\), got \[50, 3\]"):
        policy.act(np.zeros((2, 50)), action_mask=mask.T)


@pytest.mark.parametrize("shape", [(3,), (7, 2), (1, 2, 7)])
def test_observations_of_the_wrong_shape_are_named(saved, shape):
    run, _ = saved("Walker", "walker")
    with pytest.raises(ValueError, match=r"Observations must be \[2, lanes\] \(features first\), got \["):
        slipstream.load(run).act(np.zeros(shape))


def test_one_of_several_policies_must_be_named(saved):
    run, _ = saved("Duels", "red", "blue")
    with pytest.raises(RunError, match="has several policies: choose one of blue, red"):
        slipstream.load(run)
    with pytest.raises(RunError, match="has no policy 'green'"):
        slipstream.load(run, "green")
    assert slipstream.load(run, "red").name == "red"


def test_what_is_no_run_or_has_no_checkpoint_is_said_so(make_config, tmp_path):
    with pytest.raises(RunError, match="There is no run directory"):
        slipstream.load(str(tmp_path / "nothing"))
    RunDirectory.create(tmp_path / "empty", to_json(make_config())).release()
    with pytest.raises(RunError, match="has no checkpoint yet"):
        slipstream.load(str(tmp_path / "empty"))


def test_observations_that_are_not_finite_are_refused(saved):
    run, _ = saved("Walker", "walker")
    with pytest.raises(ValueError, match="Feature 1 of lane 2 is nan: observations must be finite"):
        slipstream.load(run).act(np.array([[0, 0, 0], [0, 0, np.nan]]))


def test_a_policy_is_loaded_without_its_world(make_config, save, tmp_path):
    """The file that defines the world is gone; what the policy sees and does is in the checkpoint."""
    config = make_config()
    world = tmp_path / "world.py"
    world.write_text(Path(config.env.rpartition(":")[0]).read_text())
    trainer = FusedTrainer(dataclasses.replace(config, env=f"{world}:Walker"))
    run = save(trainer, tmp_path / "run")
    world.unlink()
    policy = slipstream.load(str(run.path))
    assert policy.act([0.1, 0.2]) in (0, 1)
    assert repr(policy) == f"Policy('walker': Box(2) -> Discrete(2), from {run.path})"


def test_a_policy_with_a_memory_remembers_until_it_is_reset(saved, make_config, policy):
    remembering = policy("walker", settings=dict(memory="gru", memory_size=4))
    run, _ = saved("Walker", policies={"walker": remembering})
    loaded = slipstream.load(run)
    x = np.ones((2, 3), np.float32)

    def outputs() -> np.ndarray:
        loaded.act(x)
        return np.asarray(loaded._memory)

    first, second = outputs(), outputs()
    assert not np.allclose(first, second)
    loaded.reset(where=[True, False, False])
    third = outputs()
    np.testing.assert_allclose(third[:, 0], first[:, 0], rtol=1e-5)
    assert not np.allclose(third[:, 1:], first[:, 1:])
    loaded.reset()
    np.testing.assert_allclose(outputs(), first, rtol=1e-5)
