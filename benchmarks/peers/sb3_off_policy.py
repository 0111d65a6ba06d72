"""SAC and DQN of Stable-Baselines3, or of SBX (its port to JAX), run by ../pipeline.py in an environment of its own.

Settings are the library's own, with what its authors tuned for a task (RL Baselines3 Zoo) where there is such. Prints
one line of JSON.
"""

import argparse
import json
import os
import time

STARTED = time.time()

import gymnasium  # noqa: E402
import torch  # noqa: E402
from stable_baselines3.common.callbacks import BaseCallback  # noqa: E402
from stable_baselines3.common.evaluation import evaluate_policy  # noqa: E402
from stable_baselines3.common.monitor import Monitor  # noqa: E402

TUNED = {
    ("sac", "Pendulum-v1"): dict(learning_rate=1e-3),
    ("dqn", "CartPole-v1"): dict(
        learning_rate=2.3e-3,
        batch_size=64,
        buffer_size=100_000,
        learning_starts=1_000,
        target_update_interval=10,
        train_freq=256,
        gradient_steps=128,
        exploration_fraction=0.16,
        exploration_final_eps=0.04,
        policy_kwargs=dict(net_arch=[256, 256]),
    ),
    ("dqn", "LunarLander-v3"): dict(
        learning_rate=6.3e-4,
        batch_size=128,
        buffer_size=50_000,
        learning_starts=1_000,
        target_update_interval=250,
        train_freq=4,
        gradient_steps=-1,
        exploration_fraction=0.12,
        exploration_final_eps=0.1,
        policy_kwargs=dict(net_arch=[256, 256]),
    ),
}
PLANNED = {"CartPole-v1": 50_000, "LunarLander-v3": 100_000}
"""Steps after which the share of random actions is at its end, as its authors planned."""
SKIPPED = 30
"""Updates that are not measured: the first ones compile."""


class Rates(BaseCallback):
    """Counts samples and updates for some seconds."""

    def __init__(self, seconds: float):
        super().__init__()
        self.seconds, self.began = seconds, None

    def _on_step(self) -> bool:
        if self.model._n_updates < SKIPPED:
            return True
        if self.began is None:
            self.began, self.steps, self.updates = time.time(), self.num_timesteps, self.model._n_updates
        return time.time() - self.began < self.seconds

    def result(self, batch: int) -> dict:
        took = time.time() - self.began
        updates = (self.model._n_updates - self.updates) / took
        return {
            "samples_per_second": (self.num_timesteps - self.steps) / took,
            "updates_per_second": updates,
            "update_frames_per_second": updates * batch,
        }


class Judge(BaseCallback):
    """Evaluates now and then, and stops at the goal or after so many seconds of training, evaluations aside."""

    def __init__(self, env, arguments: argparse.Namespace):
        super().__init__()
        self.env, self.arguments = env, arguments
        self.evaluating = self.last_evaluation = 0.0
        self.reached, self.score, self.curve = False, float("nan"), []
        self.began = None

    def _on_training_start(self) -> None:
        if self.began is None:  # training that goes on longer than planned starts again
            self.began = self.judged = time.time()
            self.judged_step = 0

    @property
    def trained(self) -> float:
        return time.time() - self.began - self.evaluating

    def _on_step(self) -> bool:
        if self._due():
            self.evaluate(self.arguments.episodes)
            self.reached = self.arguments.goal is not None and self.score >= self.arguments.goal
        limit = self.arguments.seconds
        return not self.reached and (limit is None or self.trained < limit)

    def _due(self) -> bool:
        if time.time() - self.judged < self.arguments.evaluate_every or self.num_timesteps - self.judged_step < 200:
            return False
        if self.arguments.goal is None:
            return True
        recent = [e["r"] for e in self.model.ep_info_buffer][-5:]
        return bool(recent) and sum(recent) / len(recent) >= self.arguments.goal - self.arguments.margin

    def evaluate(self, episodes: int) -> None:
        start, trained = time.time(), self.trained
        self.score, _ = evaluate_policy(self.model, self.env, n_eval_episodes=episodes, deterministic=True)
        self.judged, self.judged_step = time.time(), self.num_timesteps
        self.last_evaluation = self.judged - start
        self.evaluating += self.last_evaluation
        self.curve.append([trained, self.num_timesteps, float(self.score)])

    def result(self) -> dict:
        return {
            "reached": bool(self.reached),
            "score": float(self.score),
            "total_seconds": time.time() - self.arguments.launched - self.evaluating + self.last_evaluation,
            "training_seconds": self.trained,
            "steps": self.num_timesteps,
            "curve": self.curve,
        }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=["frames", "solve", "returns"])
    parser.add_argument("--library", choices=["sb3", "sbx"], default="sb3")
    parser.add_argument("--algo", choices=["sac", "dqn"], default="sac")
    parser.add_argument("--env", default="HalfCheetah-v5")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--goal", type=float, help="the mean return to stop at")
    parser.add_argument("--margin", type=float, default=0.0, help="how far below the goal evaluations begin")
    parser.add_argument("--seconds", type=float, help="how long to train or to measure")
    parser.add_argument("--evaluate-every", type=float, default=0.0, help="seconds between two evaluations")
    parser.add_argument("--episodes", type=int, default=20, help="of an evaluation")
    parser.add_argument("--launched", type=float, default=STARTED, help="when the command was typed")
    arguments = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    if arguments.library == "sb3":
        import stable_baselines3 as library
    else:
        import sbx as library
    algorithm = {"sac": library.SAC, "dqn": library.DQN}[arguments.algo]
    env = Monitor(gymnasium.make(arguments.env))
    if arguments.task == "frames":
        settings = dict(batch_size=arguments.batch, learning_starts=100)
    else:
        settings = TUNED.get((arguments.algo, arguments.env), {})
    model = algorithm("MlpPolicy", env, seed=arguments.seed, device="cpu", **settings)
    planned = PLANNED.get(arguments.env, 10_000_000)
    if arguments.task == "frames":
        callback = Rates(arguments.seconds)
        model.learn(planned, callback=callback)
        result = callback.result(arguments.batch)
    else:
        callback = Judge(Monitor(gymnasium.make(arguments.env)), arguments)
        model.learn(planned, callback=callback)
        while not callback.reached and (arguments.seconds is None or callback.trained < arguments.seconds):
            model.learn(planned, callback=callback, reset_num_timesteps=False)  # longer than planned
        if arguments.task == "returns":
            callback.evaluate(arguments.episodes)
        result = callback.result()
    print(json.dumps(result))


main()
