import os
import subprocess
import sys

import pytest

from slipstream.training.pipeline.threads import THREADS, one_thread_is_enough

COUNT_THREADS = """
import os, sys
from slipstream.training.pipeline.threads import start_with_one_thread
before = dict(os.environ)
if "one" in sys.argv:
    start_with_one_thread()
import jax, jax.numpy as jnp
x = jnp.ones((2048, 2048))
for _ in range(3):
    x = (x @ x / 2048.0).block_until_ready()
assert dict(os.environ) == before
pools = [open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")]
print(sum("XLAEigen" in name for name in pools))
"""


@pytest.mark.parametrize(("batch", "enough"), [(256, True), (2048, True), (8192, False)])
def test_small_products_have_one_thread(batch, enough):
    assert one_thread_is_enough((256, 256), batch) == enough


def test_networks_with_one_hidden_layer_have_small_products_only():
    assert one_thread_is_enough((512,), 1 << 20)


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_the_pool_of_threads_has_one_and_the_environment_is_as_before():
    def threads(*arguments: str) -> int:
        env = {**os.environ, THREADS: "3", "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, "-c", COUNT_THREADS, *arguments]
        return int(subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout)

    assert threads() == 3
    assert threads("one") == 1
