import os
import subprocess
import sys

import pytest

from slipstream.training.pipeline.threads import SMALL, THREADS, largest_product, worth_two_cores

COUNT_THREADS = """
import os, sys
from slipstream.training.pipeline.threads import start_jax
before = dict(os.environ)
start_jax(one_thread="one" in sys.argv, two_devices="two" in sys.argv)
import jax, jax.numpy as jnp
x = jnp.ones((2048, 2048))
for _ in range(3):
    x = (x @ x / 2048.0).block_until_ready()
assert dict(os.environ) == before
pools = [open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")]
print(sum("XLAEigen" in name for name in pools), len(jax.devices()))
"""


@pytest.mark.parametrize(("batch", "small"), [(256, True), (2048, True), (8192, False)])
def test_products_of_small_batches_are_small(batch, small):
    assert (largest_product([(256, 256), (64, 64)], batch) <= SMALL) == small


def test_networks_with_one_hidden_layer_have_small_products_only():
    assert largest_product([(512,)], 1 << 20) <= SMALL


@pytest.mark.parametrize(
    ("width", "batch", "cores", "worth"),
    [(256, 256, 2, True), (256, 256, 1, False), (64, 128, 2, False), (256, 8192, 2, False)],
)
def test_critics_and_policy_get_a_core_each_where_there_are_two_and_products_are_neither_tiny_nor_large(
    width, batch, cores, worth
):
    assert worth_two_cores(largest_product([(width, width)], batch), cores) == worth


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_jax_starts_with_the_threads_and_devices_asked_for_and_the_environment_is_as_before():
    def threads_and_devices(*arguments: str) -> list[int]:
        env = {**os.environ, THREADS: "3", "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, "-c", COUNT_THREADS, *arguments]
        done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
        return [int(word) for word in done.stdout.split()]

    assert threads_and_devices() == [3, 1]
    assert threads_and_devices("one", "two") == [2, 2]  # one for each device
