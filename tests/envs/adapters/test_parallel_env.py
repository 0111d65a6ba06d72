"""Worlds in PettingZoo's clothes."""

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test

import slipstream


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("tag-gridworld", {"num_taggers": 3}),
        ("tag-continuous", {"num_taggers": 2, "num_runners": 4}),
        ("cartpole", {}),
        ("pendulum", {}),
    ],
)
def test_worlds_pass_the_test_of_pettingzoo(name, options):
    parallel_api_test(slipstream.make(name, num_worlds=1, **options).as_pettingzoo(), num_cycles=120)


def test_an_agent_that_left_the_game_is_gone_until_the_next_episode():
    env = slipstream.make("tag-continuous", num_worlds=1, num_taggers=8, num_runners=4).as_pettingzoo()
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    gone = set()
    while env.agents:
        for agent in env.agents:
            assert agent not in gone
        actions = {a: rng.integers(env.action_space(a).nvec) for a in env.agents}
        _, _, terminated, _, _ = env.step(actions)
        gone |= {a for a, flag in terminated.items() if flag}
    assert gone
    env.reset()
    assert env.agents == env.possible_agents


def test_it_says_what_the_worlds_say():
    world = slipstream.make("tag-gridworld", num_worlds=1, seed=5)
    twin = slipstream.make("tag-gridworld", num_worlds=1, seed=5)
    env = world.as_pettingzoo()
    observation, _ = env.reset(seed=5)
    np.testing.assert_array_equal(
        np.stack([observation[a] for a in env.agents if a.startswith("tagger")], axis=-1), twin.reset(5)["tagger"]
    )
    actions = {a: np.int64(i % env.action_space(a).n) for i, a in enumerate(env.agents)}
    by_group = {g.name: np.array([actions[f"{g.name}_{i}"] for i in range(g.size)]) for g in world.groups}
    seen, reward, *_ = env.step(actions)
    step = twin.step(by_group)
    assert [reward[f"tagger_{i}"] for i in range(len(step.reward["tagger"]))] == step.reward["tagger"].tolist()
    np.testing.assert_array_equal(seen["runner_0"], step.final_observation["runner"][:, 0])


def test_many_worlds_are_refused():
    with pytest.raises(ValueError, match="there are 4: make them with num_worlds=1"):
        slipstream.make("cartpole", num_worlds=4).as_pettingzoo()


def test_a_missing_action_is_named():
    env = slipstream.make("cartpole", num_worlds=1).as_pettingzoo()
    env.reset()
    with pytest.raises(ValueError, match="no action for cart_0"):
        env.step({})
