"""Several processes that average their sums learn what one process with all the lanes would learn."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rollouts import A2C, OBSERVATION, PPO, SPACES, STEPS, new_learner, new_rollout, with_fields

from slipstream.algos.a2c import make_a2c
from slipstream.algos.ppo import make_ppo
from slipstream.nets.average import Average

HALF = 4
ONE_BATCH = dataclasses.replace(PPO, epochs=2, minibatches=1)


def halves(rollout):
    """The same experience in two processes: `[2, ...]` in front of everything."""
    return jax.tree.map(lambda a: jnp.stack([a[..., :HALF], a[..., HALF:]]), rollout)


@pytest.mark.parametrize(
    ("config", "make"),
    [pytest.param(ONE_BATCH, make_ppo, id="ppo"), pytest.param(A2C, make_a2c, id="a2c", marks=pytest.mark.slow)],
)
def test_two_processes_learn_what_one_with_all_lanes_learns(config, make):
    learner = new_learner(config)
    # Unequal numbers of agents in the game: a mean of means would not do.
    active = np.ones((STEPS + 1, 2 * HALF), bool)
    active[1:, :3] = False
    rollout = with_fields(new_rollout(learner, 1, active=active), terminated=np.ones((STEPS, 2 * HALF), bool))

    def update(**options):
        made = make(config, OBSERVATION, SPACES["discrete"], **options)
        return lambda r: made.update(learner, r, elapsed=0.0, key=jax.random.key(0))

    alone, metrics = jax.jit(update())(rollout)
    together = jax.vmap(update(average=Average(("processes",), 2)), axis_name="processes")
    both, both_metrics = jax.jit(together)(halves(rollout))
    for a, b in zip(jax.tree.leaves(alone.network), jax.tree.leaves(both.network)):
        np.testing.assert_array_equal(b[0], b[1])
        np.testing.assert_allclose(a, b[0], rtol=2e-4, atol=2e-6)
    for name in ("count", "varied", "usual"):
        mine, theirs = (getattr(state.normalizer, name) for state in (alone, both))
        np.testing.assert_array_equal(mine, theirs[0])
    for name in ("mean", "variance"):
        mine, theirs = (getattr(state.normalizer, name) for state in (alone, both))
        np.testing.assert_allclose(mine, theirs[0], rtol=1e-4, atol=1e-6)
    for name in ("policy_loss", "value_loss", "entropy", "explained_variance"):
        assert float(metrics[name]) == pytest.approx(float(both_metrics[name][0]), rel=1e-3, abs=1e-5)
