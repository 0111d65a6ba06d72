"""`slipstream.load(run)`: a policy to act with."""

import numpy as np
import pytest

import slipstream
from slipstream.runs.checkpoint import save_checkpoint
from slipstream.runs.directory import RunDirectory, RunError
from slipstream.training.fused import FusedTrainer
from slipstream.training.saving import named_arrays


@pytest.fixture
def saved(make_config, tmp_path):
    """`saved(world, *groups)`: a run with a checkpoint, and the trainer it is of."""

    def save(world: str, *groups: str):
        config = make_config(world, groups)
        trainer = FusedTrainer(config)
        run = RunDirectory.create(tmp_path / world, config.to_json())
        save_checkpoint(run, 0, {"learner": named_arrays(trainer.states, "policy")}, {}, 1)
        run.release()
        return str(run.path), trainer

    return save


def test_a_discrete_policy_acts_for_one_agent_and_for_many(saved):
    run, trainer = saved("Walker", "walker")
    policy = slipstream.load(run)
    many = np.random.default_rng(0).normal(size=(2, 7)).astype(np.float32)
    actions = policy.act(many)
    assert actions.shape == (7,) and actions.dtype == np.int32 and set(actions) <= {0, 1}
    assert [int(policy.act(many[:, i])) for i in range(7)] == actions.tolist()
    assert policy.act(many[:, 0]).shape == ()
    expected = trainer.policies.algorithms["walker"].act_best(trainer.states["walker"], many, None)
    np.testing.assert_array_equal(actions, expected[0])


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
    RunDirectory.create(tmp_path / "empty", make_config().to_json()).release()
    with pytest.raises(RunError, match="has no checkpoint yet"):
        slipstream.load(str(tmp_path / "empty"))
