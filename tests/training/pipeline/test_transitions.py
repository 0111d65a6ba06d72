import json
import time

import numpy as np
import pytest

from slipstream.algos.settings import PPOConfig
from slipstream.replay.layout import RowLayout
from slipstream.spaces import Box, to_json
from slipstream.training.config import PolicyConfig
from slipstream.training.pipeline.numpy_policy import recipe_of
from slipstream.training.pipeline.ring import Region, Ring
from slipstream.training.pipeline.status import Status
from slipstream.training.pipeline.transitions import TransitionWriter
from slipstream.training.pipeline.weights import Weights
from slipstream.training.pipeline.workers import Plan, Workers


def expected_rows(steps, n_step, discount):
    """What a record of an environment's steps comes to: observation, action, reward, discount, next observation."""
    rows = []
    for begin in range(len(steps)):
        total, factor = 0.0, 1.0
        for k, (_, _, reward, following, terminated, truncated) in enumerate(steps[begin:]):
            total += factor * reward
            factor *= discount
            if terminated or truncated or k == n_step - 1:
                after = 0.0 if terminated else factor
                rows.append([*steps[begin][0], *steps[begin][1], total, after, *following])
                break
    return np.array(rows, np.float32)


def in_order(rows):
    return rows[np.lexsort(rows.T[::-1])]


def flattened(numbers, layout):
    names = ("observation", "action", "reward", "discount", "next_observation")
    return np.concatenate([numbers[:, layout.slices[name]] for name in names], axis=1)


@pytest.mark.parametrize("n_step", [1, 2, 3, 5])
def test_rows_are_what_the_steps_come_to(n_step):
    rng = np.random.default_rng(n_step)
    lanes, features, components, count = 4, 3, 2, 300
    layout = RowLayout.of(Box(features), Box(components, -1.0, 1.0), masked=False)
    ring = Ring(1, 5000, layout.width)
    writer = TransitionWriter(Region(ring.block, 0), layout, lanes, n_step, 0.9)
    records = [[] for _ in range(lanes)]
    observation = rng.normal(size=(features, lanes)).astype(np.float32)
    for _ in range(count):
        action = rng.uniform(-1, 1, (components, lanes)).astype(np.float32)
        reward = rng.normal(size=lanes).astype(np.float32)
        terminated, truncated = rng.random(lanes) < 0.1, rng.random(lanes) < 0.1
        following = rng.normal(size=(features, lanes)).astype(np.float32)
        writer.add(observation, action, {}, reward, terminated, truncated, following)
        for lane, record in enumerate(records):
            step = (observation, action, reward, following, terminated, truncated)
            record.append([a[..., lane].copy() for a in step])
        observation = np.where(terminated | truncated, rng.normal(size=following.shape), following).astype(np.float32)
    expected = np.concatenate([expected_rows(record, n_step, 0.9) for record in records])
    found = flattened(ring.block["numbers"][0, : ring.written], layout)
    assert len(found) == len(expected)
    np.testing.assert_allclose(in_order(found), in_order(expected), rtol=1e-5, atol=1e-6)


def test_pictures_lie_beside_their_numbers():
    box = Box(48, 0.0, 255.0, image=(4, 4, 3))
    layout = RowLayout.of(box, Box(1, -1.0, 1.0), masked=False)
    ring = Ring(1, 100, layout.width, layout.pixels)
    writer = TransitionWriter(Region(ring.block, 0), layout, 2, 2, 0.5)
    flags = np.zeros(2, bool)

    def picture(t):
        return np.stack([np.full(48, 10 * lane + t, np.uint8) for lane in range(2)], axis=-1)

    for t in range(4):
        writer.add(picture(t), np.full((1, 2), t / 4), {}, np.ones(2, np.float32), flags, flags, picture(t + 1))
    pixels = ring.block["pixels"][0, : ring.written]
    assert pixels[:, 0].tolist() == [0, 10, 1, 11, 2, 12]
    assert pixels[:, -1].tolist() == [2, 12, 3, 13, 4, 14]
    assert np.unique(ring.block["numbers"][0, : ring.written, layout.slices["reward"]]).tolist() == [1.5]


def test_the_ring_holds_what_the_environments_say_happened(tmp_path, pipeline_config):
    n_step, discount, lanes = 3, 0.9, 3
    observation, action = Box(3), Box(2, -2.0, 2.0)
    layout = RowLayout.of(observation, action, masked=False)
    sizes = {"policy/body/layers/0/weight": (2, 3), "policy/body/layers/0/bias": (2,), "policy/log_std": (2,)}
    arrays = {name: np.zeros(size, np.float32) for name, size in sizes.items()}
    ring, status, weights = Ring(2, 100_000, layout.width), Status.of(2), Weights.like(arrays)
    weights.publish(arrays, 0)
    policy = PolicyConfig(("agent",), "ppo", PPOConfig(hidden=()))

    def job(number):
        return {
            "number": number,
            "column": number,
            "env": pipeline_config("Recorded").env,
            "options": {"folder": str(tmp_path)},
            "seed": [1, number],
            "lanes": lanes,
            "strict": True,
            "observation": to_json(observation),
            "action": to_json(action),
            "recipe": recipe_of(policy, observation, action),
            "status": status.block.to_json(),
            "weights": weights.to_json(),
            "experience": {"kind": "replay", "block": ring.block.to_json(), "n_step": n_step, "discount": discount},
        }

    shared = (status.block.descriptor, weights.descriptor, ring.block.descriptor)
    workers = Workers(print, print)
    try:
        for i in range(2):
            plan = Plan(
                f"sampler {i}",
                "slipstream.training.pipeline.sampler",
                lambda i=i: job(i),
                shared,
                lambda i=i: int(status["steps"][i]),
                lambda i=i: float(status["heartbeat"][i]),
                60.0,
            )
            workers.add(plan)
        while not (status["steps"] > 600).all():
            workers.check()
            time.sleep(0.01)
    finally:
        status["stop"][:] = 1
        workers.remove("sampler")
    records = [[json.loads(line) for line in file.read_text().splitlines()] for file in tmp_path.glob("*.jsonl")]
    assert len(records) == 2 * lanes
    expected = np.concatenate([expected_rows(record, n_step, discount) for record in records])
    rows = [ring.block["numbers"][i, : ring.block["written"][i]] for i in range(2)]
    found = flattened(np.concatenate(rows), layout)
    found[:, 3:5] = np.clip(2.0 * found[:, 3:5], -2.0, 2.0)  # the environment is told within its bounds
    assert len(found) == len(expected) > 1000
    np.testing.assert_allclose(in_order(found), in_order(expected), rtol=1e-4, atol=1e-5)
    ends = sum(terminated or truncated for record in records for *_, terminated, truncated in record)
    assert status["episodes"].sum() == ends
    assert status["lengths"].sum() <= status["steps"].sum() == sum(map(len, records))
