"""Stable-Baselines3 PPO on CartPole, run by ../cartpole.py in an environment of its own.

Hyper-parameters are those that its authors tuned for this task (RL Baselines3 Zoo). Prints one line of JSON.
"""

import argparse
import json
import time

STARTED = time.time()

import torch  # noqa: E402
from stable_baselines3 import PPO  # noqa: E402
from stable_baselines3.common.callbacks import BaseCallback  # noqa: E402
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402
from stable_baselines3.common.evaluation import evaluate_policy  # noqa: E402


class StopAtGoal(BaseCallback):
    """Evaluates once exploration earns enough, and stops at the goal. Only the last evaluation's time is counted."""

    def __init__(self, env, goal: float):
        super().__init__()
        self.env, self.goal = env, goal
        self.evaluating = self.last_evaluation = 0.0
        self.reached = False
        self.score = float("nan")

    def _on_step(self) -> bool:
        return not self.reached

    def _on_rollout_end(self) -> None:
        episodes = [e["r"] for e in self.model.ep_info_buffer][-50:]
        if not episodes or sum(episodes) / len(episodes) < 0.5 * self.goal:
            return
        start = time.time()
        self.score, _ = evaluate_policy(self.model, self.env, n_eval_episodes=100, deterministic=True)
        self.last_evaluation = time.time() - start
        self.evaluating += self.last_evaluation
        self.reached = self.score >= self.goal


def linear(start: float):
    return lambda left: start * left


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--goal", type=float, default=475.0)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--launched", type=float, default=STARTED, help="when the command was typed")
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    env = make_vec_env("CartPole-v1", n_envs=8, seed=arguments.seed)
    callback = StopAtGoal(make_vec_env("CartPole-v1", n_envs=8, seed=1000 + arguments.seed), arguments.goal)
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=32,
        batch_size=256,
        gae_lambda=0.8,
        gamma=0.98,
        n_epochs=20,
        ent_coef=0.0,
        learning_rate=linear(0.001),
        clip_range=linear(0.2),
        seed=arguments.seed,
        device="cpu",
    )
    began = time.time()
    model.learn(arguments.steps, callback=callback)
    ended = time.time()
    training = ended - began - callback.evaluating
    print(
        json.dumps(
            {
                "reached": bool(callback.reached),
                "score": float(callback.score),
                "total_seconds": ended - arguments.launched - callback.evaluating + callback.last_evaluation,
                "training_seconds": training,
                "steps": model.num_timesteps,
                "steps_per_second": model.num_timesteps / training,
            }
        )
    )


main()
