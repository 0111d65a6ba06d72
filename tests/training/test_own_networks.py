"""Networks of the user's own: ordinary Equinox modules of one agent."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import slipstream
from slipstream.training.config import PolicyConfig
from slipstream.training.fused import FusedTrainer
from slipstream.training.networks import network_maker, network_name

KEY = jax.random.key(0)


class Residual(eqx.Module):
    """Maps `[inputs]` to `[outputs]`, with an activation among its fields."""

    first: eqx.nn.Linear
    last: eqx.nn.Linear
    activation: object

    def __init__(self, inputs: int, outputs: int, *, key):
        a, b = jax.random.split(key)
        self.first = eqx.nn.Linear(inputs, inputs, key=a)
        self.last = eqx.nn.Linear(inputs, outputs, key=b)
        self.activation = jax.nn.relu

    def __call__(self, x):
        return self.last(x + self.activation(self.first(x)))


class TooShort(eqx.Module):
    def __init__(self, inputs: int, outputs: int, *, key): ...

    def __call__(self, x):
        return x[:1]


def test_a_users_network_trains_and_is_loaded_again(make_config, same, tmp_path):
    policies = {"walker": PolicyConfig(("walker",), network=Residual)}
    assert policies["walker"].network == f"{__name__}:Residual"
    fresh = FusedTrainer(make_config(policies=policies))
    result = slipstream.train(make_config(policies=policies), run=tmp_path / "run", quiet=True)
    policy = slipstream.load(result.run)
    assert isinstance(policy.actor.policy.body.weights, Residual)
    assert not same(policy.actor.policy, fresh.actors["walker"].policy)
    assert policy.act(np.zeros((2, 5))).shape == (5,)


def test_lanes_are_the_last_axis_and_do_not_see_each_other():
    made = network_maker(f"{__file__}:Residual")(3, 2, 1.0, key=KEY)
    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4)), jnp.float32)
    alone = jnp.stack([eqx.combine(made.weights, made.rest)(x[:, i]) for i in range(4)], axis=1)
    np.testing.assert_allclose(made(x), alone, rtol=1e-5)


def test_a_network_of_the_wrong_size_is_named():
    with pytest.raises(ValueError, match=r"network of TooShort must map \[3\] to \[2\] numbers, but it returns \[1\]"):
        network_maker(f"{__file__}:TooShort")(3, 2, 1.0, key=KEY)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Residual", "is named path/to/file.py:Class or module:Class"),
        (f"{__file__}:Nothing", "has no network 'Nothing'; it defines Residual, TooShort"),
        ("no_such_module:Net", "There is no module 'no_such_module'"),
        ("nothing.py:Net", "There is no file nothing.py"),
    ],
)
def test_a_network_that_is_not_found_is_explained(name, message):
    with pytest.raises(ValueError, match=message):
        network_maker(name)


def test_a_network_that_could_not_be_found_again_is_refused():
    class Inner(Residual):
        pass

    with pytest.raises(ValueError, match="cannot be found again by name"):
        network_name(Inner)
