"""Worlds without our training: a random search for a linear policy that balances a pole.

Every world tries another policy. Run it as `python examples/your_own_loop.py`.
"""

import argparse

import numpy as np

import slipstream


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=256)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    worlds = slipstream.make("cartpole", num_worlds=options.worlds)
    weights = np.random.default_rng(0).normal(size=(4, options.worlds))
    alive = np.ones(options.worlds, bool)
    lasted = np.zeros(options.worlds, int)
    observation = worlds.reset(seed=0)  # [features, lanes]: a column for each world
    for _ in range(options.steps):
        step = worlds.step((np.sum(np.asarray(observation) * weights, axis=0) > 0).astype(np.int32))
        alive &= ~np.asarray(step.terminated)
        lasted += alive
        observation = step.observation
    best = weights[:, lasted.argmax()]
    print(f"{alive.mean():.0%} of {options.worlds} policies last {options.steps} steps; one of them: {best.round(2)}")


if __name__ == "__main__":
    main()
