"""Train PPO of Stable-Baselines3 on thousands of our worlds at once.

Needs `pip install stable-baselines3` beside Slipstream. Run it as `python examples/with_stable_baselines3.py`.
"""

import argparse

from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecMonitor

import slipstream


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=256)
    parser.add_argument("--steps", type=int, default=200_000)
    options = parser.parse_args()
    env = VecMonitor(slipstream.make("cartpole", num_worlds=options.worlds).as_stable_baselines3())
    agent = PPO("MlpPolicy", env, n_steps=32, batch_size=2048, learning_rate=1e-3, gamma=0.98, device="cpu", seed=0)
    agent.learn(options.steps)
    mean, deviation = evaluate_policy(agent, env, n_eval_episodes=100)
    print(f"return over 100 episodes: {mean:.1f} +- {deviation:.1f}")


if __name__ == "__main__":
    main()
