import os
import subprocess
import sys

import pytest

from slipstream.algos.settings import A2CConfig, SACConfig
from slipstream.training.config import PolicyConfig
from slipstream.training.threads import SMALL, THREADS, largest_product, one_thread_is_enough, worth_two_cores

COUNT_THREADS = """
import os, sys
from slipstream.training.threads import start_jax
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
    settings = SACConfig(hidden=(64, 64), critic_hidden=(256, 256), batch_size=batch)
    assert (largest_product(settings) <= SMALL) == small


def test_networks_with_one_hidden_layer_have_small_products_only():
    assert largest_product(SACConfig(hidden=(512,), batch_size=1 << 20)) <= SMALL


def test_one_thread_is_enough_where_all_that_learns_does_so_from_replay_by_small_products():
    small = PolicyConfig(groups=("a",), algo="sac", settings=SACConfig(hidden=(64, 64), batch_size=128))
    large = PolicyConfig(groups=("b",), algo="sac", settings=SACConfig(hidden=(512, 512), batch_size=8192))
    rollouts = PolicyConfig(groups=("c",), algo="a2c", settings=A2CConfig())
    assert one_thread_is_enough([small])
    assert not one_thread_is_enough([small, large])
    assert not one_thread_is_enough([small, rollouts])


@pytest.mark.parametrize(
    ("width", "batch", "cores", "worth"),
    [(256, 256, 2, True), (256, 256, 1, False), (64, 128, 2, False), (256, 8192, 2, False)],
)
def test_critics_and_policy_get_a_core_each_where_there_are_two_and_products_are_neither_tiny_nor_large(
    width, batch, cores, worth
):
    settings = SACConfig(hidden=(width, width), batch_size=batch)
    assert worth_two_cores(largest_product(settings), cores) == worth


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_jax_starts_with_the_threads_and_devices_asked_for_and_the_environment_is_as_before():
    def threads_and_devices(*arguments: str) -> list[int]:
        env = {**os.environ, THREADS: "3", "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, "-c", COUNT_THREADS, *arguments]
        done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
        return [int(word) for word in done.stdout.split()]

    assert threads_and_devices() == [3, 1]
    assert threads_and_devices("one", "two") == [2, 2]  # one for each device
