"""simple_tag of a peer with random actions: prints env steps in a second. Runs in the peers' own environment.

python particles.py jaxmarl|vmas|pettingzoo [--worlds 1024] [--seconds 5]
"""

from __future__ import annotations

import argparse
import time


def jaxmarl(worlds: int, seconds: float) -> float:
    import jax
    import jaxmarl

    env = jaxmarl.make("MPE_simple_tag_v3")
    steps = 100

    def step(carry, key):
        state, _ = carry
        keys = jax.random.split(key, worlds)

        def one(key, state):
            act, go = jax.random.split(key)
            acts = jax.random.split(act, len(env.agents))
            actions = {a: env.action_space(a).sample(k) for a, k in zip(env.agents, acts)}
            _, state, reward, _, _ = env.step(go, state, actions)
            return state, sum(reward.values())

        state, reward = jax.vmap(one)(keys, state)
        return (state, reward), None

    @jax.jit
    def rollout(state, key):
        (state, reward), _ = jax.lax.scan(step, (state, jax.numpy.zeros(worlds)), jax.random.split(key, steps))
        return state, reward

    _, state = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), worlds))
    return _rate(lambda i: jax.block_until_ready(rollout(state, jax.random.key(i))), worlds * steps, seconds)


def vmas(worlds: int, seconds: float) -> float:
    import torch
    from vmas import make_env

    env = make_env("simple_tag", num_envs=worlds, continuous_actions=False, max_steps=25)
    env.reset()

    def step(i: int) -> None:
        env.step([torch.randint(0, 5, (worlds, 1)) for _ in env.agents])
        if i % 25 == 24:
            env.reset()

    return _rate(step, worlds, seconds)


def pettingzoo(worlds: int, seconds: float) -> float:
    from mpe2 import simple_tag_v3

    env = simple_tag_v3.parallel_env(max_cycles=25)
    env.reset(seed=0)

    def step(i: int) -> None:
        env.step({agent: env.action_space(agent).sample() for agent in env.agents})
        if not env.agents:
            env.reset()

    return _rate(step, 1, seconds)


def _rate(step, steps: int, seconds: float) -> float:
    step(0)  # compiles
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        step(count + 1)
        count += 1
    return count * steps / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    libraries = {"jaxmarl": jaxmarl, "vmas": vmas, "pettingzoo": pettingzoo}
    parser.add_argument("library", choices=libraries)
    parser.add_argument("--worlds", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args()
    print(libraries[given.library](given.worlds, given.seconds))


if __name__ == "__main__":
    main()
