"""One trainer for many agents: settings that turn without compiling, and a trainer that begins anew."""

import dataclasses

import jax
import numpy as np
import pytest

from slipstream.training.fused import FusedTrainer

TURNED = {
    "ppo": dict(learning_rate=0.003, entropy_cost=0.01, clip_ratio=0.1, trace=0.8, discount=0.9, max_grad_norm=0.3),
    "a2c": dict(learning_rate=0.003, entropy_cost=0.01, trace=0.8),
    "dqn": dict(learning_rate=0.003, target_rate=0.1, reward_scale=0.5),
}


def weights(trainer: FusedTrainer) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(trainer.policies.actors(trainer.states))])


@pytest.mark.parametrize("algo", TURNED)
def test_a_dial_does_what_the_setting_does_and_compiles_nothing(make_config, policy, trained, algo):
    usual = make_config(policies={"walker": policy("walker", algo=algo)})
    other = make_config(policies={"walker": policy("walker", algo=algo, settings=TURNED[algo])})
    turned = FusedTrainer(usual)
    turned.dials = {"walker": TURNED[algo]}
    plain, expected = trained(usual, 5), trained(other, 5)
    for _ in range(5):
        turned.iterate()
    # Numbers that are known before are folded into others: the last digits differ.
    assert np.allclose(weights(turned), weights(expected), rtol=1e-3, atol=1e-5)
    assert not np.allclose(weights(turned), weights(plain), rtol=1e-2, atol=1e-3)
    if algo == "ppo":
        compiled = turned.policies._update._cache_size()
        turned.dials = {"walker": {name: value * 0.5 for name, value in TURNED[algo].items()}}
        turned.iterate()
        assert turned.policies._update._cache_size() == compiled


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_a_trainer_that_begins_anew_is_a_new_one(make_config, trained, same, algo):
    config = make_config(algo=algo, stagger=True)
    old = trained(config, 5)
    old.begin_anew(11)
    new = FusedTrainer(dataclasses.replace(config, seed=11))
    for _ in range(5):
        old.iterate()
        new.iterate()
    assert same(old.save()[0]["learner"], new.save()[0]["learner"])
    assert same(old.save()[0]["worlds"], new.save()[0]["worlds"])
    assert old.totals() == new.totals()
