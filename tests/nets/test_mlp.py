import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.nets.mlp import product, swish


@given(outputs=st.integers(1, 5), inputs=st.integers(1, 5), lanes=st.integers(1, 5), seed=st.integers(0, 99))
@settings(max_examples=10, deadline=None)
def test_the_gradient_of_a_product_is_that_of_plain_multiplication(outputs, inputs, lanes, seed):
    keys = jax.random.split(jax.random.key(seed), 3)
    weight, x, cotangent = (
        jax.random.normal(k, shape) for k, shape in zip(keys, [(outputs, inputs), (inputs, lanes), (outputs, lanes)])
    )
    mine = jax.vjp(product, weight, x)[1](cotangent)
    for found, expected in zip(mine, jax.vjp(jnp.matmul, weight, x)[1](cotangent)):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_swish_and_its_derivative_are_those_of_jax_also_far_out():
    x = jnp.concatenate([jnp.linspace(-30.0, 30.0, 601), jnp.array([-1e30, -200.0, 200.0, 1e30])])
    np.testing.assert_allclose(swish(x), jax.nn.swish(x), rtol=1e-5, atol=1e-5)
    mine, theirs = (jax.vmap(jax.grad(f))(x) for f in (swish, jax.nn.swish))
    np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)
