"""An update in two halves on two devices: what one device learns if they exchange all the time, and useful if not.

It runs in a process of its own, because the number of JAX's devices is fixed when a process begins.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import jax, numpy as np
sys.path.insert(0, {here!r})
from test_off_policy import UPDATES, made, transitions

one, two = jax.devices()[:2]
algorithm, batch = made("{algo}"), transitions("{algo}")
whole, halves = jax.jit(algorithm.update), algorithm.halves
critics, policy = jax.jit(halves.critics.update), jax.jit(halves.policy.update)


def on(device, tree):
    return jax.device_put(tree, device)


def learn(update, device, state, part, seed):
    return update(state, on(device, part), elapsed=0.0, key=on(device, jax.random.key(seed)))


expected = algorithm.init(key=jax.random.key(0))
a, b = on(one, expected), on(two, expected)
for i in range(UPDATES):
    part = jax.tree.map(lambda x: x[i : i + 1], batch)
    expected, told = learn(whole, one, expected, part, i)
    a, by_critics = learn(critics, one, a, part, i)
    b = halves.critics.taken(on(two, halves.critics.own(a)), b)
    b, by_policy = learn(policy, two, b, part, i)
    a = halves.policy.taken(on(one, halves.policy.own(b)), a)
    for name, value in (by_critics | by_policy).items():
        np.testing.assert_allclose(value, told[name], rtol=1e-5, atol=1e-6, err_msg=name)
jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5), expected, a)
assert a.updates.devices() == {{one}} and b.updates.devices() == {{two}}

# Without waiting: both run at once, and hand over what they have learned after a whole stack.
losses = []
for i in range(40):
    (a, by_critics), (b, _) = learn(critics, one, a, batch, i), learn(policy, two, b, batch, i)
    to_a, to_b = on(one, halves.policy.own(b)), on(two, halves.critics.own(a))
    a, b = halves.policy.taken(to_a, a), halves.critics.taken(to_b, b)
    losses.append(float(by_critics["critic_loss"]))
assert np.mean(losses[-5:]) < 0.75 * np.mean(losses[:5]), losses
assert int(a.updates) == int(b.updates) == UPDATES * 41
print("well")
"""


@pytest.mark.parametrize("algo", ["sac", pytest.param("td3", marks=pytest.mark.slow)])
def test_two_devices_learn_what_one_learns_if_they_exchange_after_every_step_and_go_on_if_they_do_not(algo):
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    program = PROGRAM.format(here=os.path.dirname(__file__), algo=algo)
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "well", done.stderr[-3000:]
