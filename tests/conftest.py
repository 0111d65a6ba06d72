"""What all tests run under: quickly compiled programs, and a renderer for machines without a screen."""

import gc
import os

import jax

from slipstream.training.film import choose_renderer

# MuJoCo chooses its renderer when it is first imported, which some test modules do.
choose_renderer()

QUICK_FLAGS = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"


def pytest_configure(config):
    """Tests compile thousands of small programs and hardly run them: quickly compiled is better than fast here.

    A program of PPO's takes a seventh of the time to compile, and three times as long to run. Processes that tests
    start inherit it. The slow tests train for real, and what they compile is what a user gets.
    """
    if config.option.markexpr == "slow":
        return
    if QUICK_FLAGS not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK_FLAGS}".strip()
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    jax.config.update("jax_disable_most_optimizations", True)


def pytest_collection_finish():
    """What tests and libraries are made of stays: the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
