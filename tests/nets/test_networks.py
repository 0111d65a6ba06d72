"""Networks on feature-major batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from slipstream.nets.agent import ActorCritic
from slipstream.nets.distributions import Categorical, Gaussian
from slipstream.nets.mlp import ACTIVATIONS, MLP

KEY = jax.random.key(0)


def small(inputs: int, outputs: int, output_scale: float, *, key: jax.Array) -> MLP:
    return MLP(inputs, (16,), outputs, "tanh", output_scale, key=key)


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_an_mlp_maps_features_to_outputs_and_keeps_lanes_last(activation):
    net = MLP(3, (8, 5), 2, activation, 1.0, key=KEY)
    assert net(jnp.ones((3, 7))).shape == (2, 7)
    assert [layer.weight.shape for layer in net.layers] == [(8, 3), (5, 8), (2, 5)]


def test_an_mlp_is_its_layers_written_out():
    net = MLP(3, (8,), 2, "tanh", 1.0, key=KEY)
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    first, last = net.layers
    hidden = np.tanh(np.asarray(first.weight) @ x + np.asarray(first.bias)[:, None])
    np.testing.assert_allclose(net(x), np.asarray(last.weight) @ hidden + np.asarray(last.bias)[:, None], atol=1e-6)


def test_lanes_do_not_see_each_other():
    net = MLP(3, (8,), 2, "relu", 1.0, key=KEY)
    x = jnp.asarray(np.random.default_rng(1).normal(size=(3, 5)), jnp.float32)
    changed = x.at[:, 2].set(100.0)
    same = np.array([0, 1, 3, 4])
    np.testing.assert_array_equal(net(x)[:, same], net(changed)[:, same])


def test_without_hidden_layers_an_mlp_is_linear():
    net = MLP(3, (), 2, "tanh", 1.0, key=KEY)
    x = jnp.asarray(np.random.default_rng(2).normal(size=(3, 5)), jnp.float32)
    np.testing.assert_allclose(net(2.0 * x), 2.0 * net(x), rtol=1e-5)


def test_a_new_policy_is_nearly_uniform_and_the_critic_apart_from_it():
    net = ActorCritic(3, Categorical((4,)), small, 0.0, None, key=KEY)
    x = jnp.asarray(np.random.default_rng(3).normal(size=(3, 6)), jnp.float32)
    probabilities = jax.nn.softmax(net.policy(x), axis=0)
    np.testing.assert_allclose(probabilities, 0.25, atol=0.02)
    assert net.value(x).shape == (6,)
    assert float(jnp.abs(net.value(x)).max()) > 0.1


def test_a_continuous_policy_has_a_deviation_that_does_not_depend_on_the_state():
    net = ActorCritic(3, Gaussian(2, (-1.0,) * 2, (1.0,) * 2), small, -0.7, None, key=KEY)
    parameters = np.asarray(net.policy(jnp.asarray(np.random.default_rng(4).normal(size=(3, 6)), jnp.float32)))
    assert parameters.shape == (4, 6)
    np.testing.assert_allclose(parameters[2:], -0.7)


def test_other_keys_give_other_weights():
    a, b = (MLP(3, (8,), 2, "tanh", 1.0, key=jax.random.key(i)) for i in (1, 2))
    assert not np.allclose(a.layers[0].weight, b.layers[0].weight)
