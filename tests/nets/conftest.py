"""The tests of networks compile many small programs once: quickly compiled is better than fast here."""

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def compile_quickly():
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
