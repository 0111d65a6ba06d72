"""Brax PPO on one of its own robots, run by ../locomotion.py in an environment of its own until it is stopped.

Settings are those of Brax's own training notebook, with fewer worlds: a CPU has not the memory bandwidth of a TPU.
Prints one line of JSON whenever it evaluates; the first one comes before any training.
"""

import argparse
import functools
import json
import time

STARTED = time.time()

from brax import envs  # noqa: E402
from brax.training.agents.ppo import train as ppo  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", required=True)
    parser.add_argument("--backend", default="spring", help="the fastest of Brax's own on a CPU")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--launched", type=float, default=STARTED, help="when the command was typed")
    arguments = parser.parse_args()

    def progress(steps: int, metrics: dict) -> None:
        score = float(metrics["eval/episode_reward"])
        print(
            json.dumps({"seconds": time.time() - arguments.launched, "steps": int(steps), "score": score}), flush=True
        )

    train = functools.partial(
        ppo.train,
        num_timesteps=2_000_000,
        num_evals=20,
        num_eval_envs=16,
        episode_length=1000,
        normalize_observations=True,
        reward_scaling=10 if arguments.env == "ant" else 0.1 if arguments.env == "humanoid" else 1,
        unroll_length=10,
        num_minibatches=8,
        num_updates_per_batch=8,
        discounting=0.97,
        learning_rate=3e-4,
        entropy_cost=1e-3,
        num_envs=256,
        batch_size=64,
        seed=arguments.seed,
    )
    train(environment=envs.get_environment(arguments.env, backend=arguments.backend), progress_fn=progress)


main()
