"""Stable-Baselines3 PPO, run by ../cartpole.py and ../locomotion.py in an environment of its own.

CartPole has the hyper-parameters that its authors tuned (RL Baselines3 Zoo). Robots have the library's defaults, with
normalised observations and rewards, and one rollout of 2,048 steps over 8 environments. Prints one line of JSON.
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
from stable_baselines3.common.vec_env import VecNormalize, sync_envs_normalization  # noqa: E402

ENVS = 8


def linear(start: float):
    return lambda left: start * left


CARTPOLE = dict(
    n_steps=32,
    batch_size=256,
    gae_lambda=0.8,
    gamma=0.98,
    n_epochs=20,
    ent_coef=0.0,
    learning_rate=linear(0.001),
    clip_range=linear(0.2),
)
ROBOT = dict(n_steps=2048 // ENVS)


class Judge(BaseCallback):
    """Evaluates now and then, and stops at the goal or after so many seconds of training.

    Only the last evaluation's time is counted.
    """

    def __init__(self, env, arguments: argparse.Namespace):
        super().__init__()
        self.env, self.goal, self.every = env, arguments.goal, arguments.evaluate_every
        self.limit, self.episodes = arguments.seconds, arguments.episodes
        self.evaluating = self.last_evaluation = 0.0
        self.began = self.judged = time.time()
        self.reached = False
        self.score = float("nan")
        self.curve = []

    def _on_training_start(self) -> None:
        self.began = self.judged = time.time()

    @property
    def trained(self) -> float:
        """Seconds of training, evaluations aside."""
        return time.time() - self.began - self.evaluating

    def _on_step(self) -> bool:
        return not self.reached and (self.limit is None or self.trained < self.limit)

    def _on_rollout_end(self) -> None:
        episodes = [e["r"] for e in self.model.ep_info_buffer][-50:]
        hopeless = self.goal is not None and sum(episodes) < 0.5 * self.goal * len(episodes)
        if not episodes or hopeless or time.time() - self.judged < self.every:
            return
        start, trained = time.time(), self.trained
        if isinstance(self.env, VecNormalize):
            sync_envs_normalization(self.training_env, self.env)
        self.score, _ = evaluate_policy(self.model, self.env, n_eval_episodes=self.episodes, deterministic=True)
        self.judged = time.time()
        self.last_evaluation = self.judged - start
        self.evaluating += self.last_evaluation
        self.curve.append([trained, self.num_timesteps, float(self.score)])
        self.reached = self.goal is not None and self.score >= self.goal


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--env-options", type=json.loads, default={}, help="as JSON")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--goal", type=float, help="the mean return to stop at")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, help="how long to train at most")
    parser.add_argument("--evaluate-every", type=float, default=0.0, help="seconds between two evaluations")
    parser.add_argument("--episodes", type=int, default=100, help="of an evaluation")
    parser.add_argument("--launched", type=float, default=STARTED, help="when the command was typed")
    arguments = parser.parse_args()
    torch.set_num_threads(2)

    def envs(seed: int):
        return make_vec_env(arguments.env, n_envs=ENVS, seed=seed, env_kwargs=arguments.env_options)

    env, other = envs(arguments.seed), envs(1000 + arguments.seed)
    settings = CARTPOLE
    if arguments.env != "CartPole-v1":
        env, other, settings = VecNormalize(env), VecNormalize(other, training=False, norm_reward=False), ROBOT
    callback = Judge(other, arguments)
    model = PPO("MlpPolicy", env, seed=arguments.seed, device="cpu", **settings)
    model.learn(arguments.steps, callback=callback)
    training = callback.trained
    print(
        json.dumps(
            {
                "reached": bool(callback.reached),
                "score": float(callback.score),
                "total_seconds": time.time() - arguments.launched - callback.evaluating + callback.last_evaluation,
                "training_seconds": training,
                "steps": model.num_timesteps,
                "steps_per_second": model.num_timesteps / training,
                "curve": callback.curve,
            }
        )
    )


main()
