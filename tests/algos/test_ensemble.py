"""Several policies act as one: the mean of actions, or a vote that ties do not stop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from slipstream.algos.algo import Algorithm, Choice, Inputs, WholeRollout
from slipstream.algos.ensemble import make_ensemble, vote
from slipstream.spaces import Box, Discrete
from slipstream.training.choices import default_config
from slipstream.training.config import PolicyConfig
from slipstream.training.config_json import from_json, to_json


def member(weight: float) -> Algorithm:
    """Multiplies what it sees by a number, and counts how often it has acted."""

    def act(actor, inputs, *, explore, key):
        return Choice(actor * inputs.observation, (), inputs.memory + 1)

    return Algorithm(
        lambda *, key: jnp.array(weight), lambda state: state, jnp.zeros, act, lambda *a, **k: a, WholeRollout()
    )


def test_continuous_actions_are_averaged_and_everybody_remembers():
    ensemble = make_ensemble([member(1.0), member(2.0), member(6.0)], Box(2))
    actor = ensemble.actor(ensemble.init(key=jax.random.key(0)))
    seen = jnp.arange(8.0).reshape(2, 4)
    choice = ensemble.act(actor, Inputs(seen, memory=ensemble.memory(4)), explore=False, key=jax.random.key(0))
    assert np.allclose(choice.action, 3.0 * seen)
    assert len(choice.memory) == 3 and all(np.array_equal(m, np.ones(4)) for m in choice.memory)


def test_discrete_actions_are_voted_on():
    ballots = jnp.array([[[0, 1, 2, 0]], [[1, 1, 0, 2]], [[1, 0, 1, 1]]])  # [members, components, lanes]
    # In the last two lanes all disagree, and the first member decides.
    assert np.array_equal(vote(ballots, 3), [[1, 1, 2, 0]])
    two = make_ensemble([member(1), member(0)], Discrete(3))
    actor = two.actor(two.init(key=jax.random.key(0)))
    choice = two.act(
        actor, Inputs(jnp.ones((1, 5), jnp.int32), memory=two.memory(5)), explore=False, key=jax.random.key(0)
    )
    assert choice.action.tolist() == [[1] * 5]


def test_an_ensemble_does_not_learn():
    with pytest.raises(TypeError, match="does not learn"):
        make_ensemble([member(1.0)], Box(1)).update(None, None, elapsed=0.0, key=jax.random.key(0))
    with pytest.raises(ValueError, match="must be frozen"):
        PolicyConfig(("cart",), members=(PolicyConfig(("cart",)),))


def test_an_ensemble_survives_json():
    config = default_config("cartpole")
    own = config.policies["cart"]
    both = PolicyConfig(("cart",), own.algo, own.settings, frozen=True, members=(own, PolicyConfig(("cart",))))
    changed = type(config)(**{**vars(config), "policies": {"cart": both}})
    assert from_json(to_json(changed)) == changed
