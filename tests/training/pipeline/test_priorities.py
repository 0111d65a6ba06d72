"""Rows of the pipeline's ring are drawn by their priorities, those that are there and no others."""

import gym_environments
import numpy as np
import pytest
import writers

from slipstream import load, train
from slipstream.algos.algo import Replay
from slipstream.algos.settings import DQNConfig
from slipstream.replay.layout import RowLayout
from slipstream.replay.ring import LEAST
from slipstream.spaces import Box
from slipstream.training.pipeline.feeds import ReplayFeed
from slipstream.training.pipeline.priorities import BLOCK, Picked
from slipstream.training.pipeline.ring import Region, Ring

WIDTH = 3


def write(ring: Ring, region: int, *values: float) -> None:
    Region(ring.block, region).write(np.repeat(np.array(values, np.float32)[:, None], WIDTH, axis=1))


def draw(ring: Ring, count: int, seed: int = 0) -> tuple[np.ndarray, Picked]:
    """What is drawn, by the values of its rows, and what the ring says of it."""
    numbers, picked = np.empty((count, WIDTH), np.float32), Picked.room(count)
    ring.draw(count, np.random.default_rng(seed), numbers, picked=picked)
    return numbers[:, 0], picked


def change(ring: Ring, region: int, *priorities: tuple[int, float]) -> None:
    rows, values = (np.array(a) for a in zip(*priorities))
    assert ring.priorities is not None
    ring.priorities.change(Picked(np.full(len(rows), region), rows, np.ones(len(rows))), values)


def test_rows_are_drawn_as_often_as_their_priorities_say():
    size = 2 * BLOCK + 5  # regions and blocks do not end together
    ring = Ring(2, 2 * size, WIDTH, prioritised=True)
    write(ring, 0, *range(size - 20))
    write(ring, 1, *range(1000, 1000 + size - 1))
    draw(ring, 1)
    first = np.random.default_rng(1).exponential(size=size - 20)
    second = np.random.default_rng(2).exponential(size=size - 1)
    for region, priorities in enumerate((first, second)):
        change(ring, region, *enumerate(priorities))
    values, picked = draw(ring, 200_000)
    assert np.array_equal(values, 1000 * picked.region + picked.row)
    expected = np.zeros(2000)
    expected[: len(first)], expected[1000 : 1000 + len(second)] = first, second
    assert np.allclose(picked.priority, expected[values.astype(int)])
    expected *= 200_000 / expected.sum()
    often = np.bincount(values.astype(int), minlength=2000)
    assert not often[expected == 0].any()
    deviation = (often - expected)[expected > 0] ** 2 / expected[expected > 0]
    assert deviation.max() < 20 and deviation.mean() == pytest.approx(1.0, abs=0.5)


def test_what_is_new_gets_the_largest_priority_and_what_is_written_over_loses_its_own():
    ring = Ring(1, 64, WIDTH, prioritised=True)  # 2 rows are left alone when it is full
    write(ring, 0, *range(60))
    _, picked = draw(ring, 100)
    assert set(picked.priority) == {1.0}
    change(ring, 0, *((row, 0.01) for row in range(60)), (3, 500.0), (50, 7.0))
    assert (draw(ring, 1000)[0] == 3).mean() > 0.95
    write(ring, 0, *range(60, 80))  # over rows 0 .. 15; 16 and 17 would be next
    values, picked = draw(ring, 20_000)
    assert values.min() >= 18
    assert set(picked.priority[values >= 60]) == {500.0}
    change(ring, 0, *((row, 0.01) for row in range(60, 80)))
    values, picked = draw(ring, 20_000)
    assert (values == 50).mean() == pytest.approx(7.0 / 7.61, abs=0.02)
    write(ring, 0, 80)
    assert set(draw(ring, 1000)[1].priority) <= {np.float32(7.0), np.float32(0.01)}, "500 is gone"


def test_a_surprise_that_comes_too_late_is_not_taken_for_that_of_what_has_been_written_over_it():
    ring = Ring(1, 64, WIDTH, prioritised=True)
    write(ring, 0, *range(60))
    draw(ring, 1)
    write(ring, 0, *range(60, 80))
    draw(ring, 1)
    change(ring, 0, (5, 1e6), (17, 1e6), (18, 3.0))
    values, picked = draw(ring, 20_000)
    assert set(values) == set(range(18, 80))
    assert dict(zip(values.tolist(), picked.priority.tolist())) == {
        row: 3.0 if row == 18 else 1.0 for row in set(values)
    }


def test_rows_that_are_drawn_while_writers_hammer_are_those_that_are_said():
    ring = Ring(2, 200, 40, prioritised=True)
    assert ring.priorities is not None
    job = {"block": ring.block.to_json()}
    started = [
        writers.start("write_rows_for_ever", {**job, "region": i, "count": 7 - i}, ring.block.descriptor)
        for i in range(2)
    ]
    try:
        while not (ring.block["written"] > 1000).all():
            assert all(w.poll() is None for w in started)
        rng, numbers, picked = np.random.default_rng(0), np.empty((500, 40), np.float32), Picked.room(500)
        again, rows = 0, 0
        for _ in range(300):
            again += ring.draw(500, rng, numbers, picked=picked)[1]
            assert (numbers == (picked.row % 10_000)[:, None]).all()
            rows = max(rows, picked.row.max())
            ring.priorities.change(picked, rng.exponential(size=500) + 0.1)
        assert again and rows > 2000  # else this test has tested nothing
    finally:
        for w in started:
            w.kill()
            w.wait()


def test_a_ring_that_is_emptied_begins_anew():
    ring = Ring(2, 40, WIDTH, prioritised=True)
    write(ring, 0, *range(10))
    draw(ring, 1)
    change(ring, 0, (4, 100.0))
    ring.forget()
    write(ring, 1, 20, 21)
    values, picked = draw(ring, 100)
    assert set(values) == {20, 21} and set(picked.priority) == {1.0}


def test_batches_are_weighted_for_what_is_drawn_too_often_and_learned_from_by_surprise():
    layout = RowLayout.of(Box(1), Box(1, -1.0, 1.0), masked=False)
    rule = Replay(40, 500, 1.0, 0, 1, 0.99, 2.0, 0.5)  # by the second power of the surprise
    feed = ReplayFeed(rule, layout, 2, 3, seed=0)
    Region(feed.block, 0).write(np.repeat(np.arange(10, dtype=np.float32)[:, None], layout.width, axis=1))
    numbers, _, weight = feed.take()
    assert numbers.shape == (3, 500, layout.width) and (weight == 1.0).all()
    feed.fetch()  # while the first batch is learned from
    surprise = np.where(numbers[..., 0] == 4, -2.0, 0.5)
    surprise[numbers[..., 0] == 9] = np.nan  # counts as 1
    feed.surprised(surprise)
    assert (feed.take()[2] == 1.0).all(), "it was drawn before"
    numbers, _, weight = feed.take()
    often, value = (2.0 + LEAST) ** 2, (0.5 + LEAST) ** 2
    assert (numbers[..., 0] == 4).mean() == pytest.approx(often / (often + 8 * value + 1.0), abs=0.05)
    expected = np.where(numbers[..., 0] == 4, often, np.where(numbers[..., 0] == 9, 1.0, value)) ** -0.5
    assert weight == pytest.approx(expected / expected.max())
    feed.fetch()
    feed.divide(1)
    assert (feed.take()[2] == 1.0).all(), "divided among others, all rows begin alike"


QUICK = {"samplers": 1, "envs_per_sampler": 2, "evaluator_share": 0.0, "film_share": 0.0, "tune": False, "quiet": True}
SMALL = {"hidden": (16,), "batch_size": 32, "warm_up": 200, "replay_size": 2_000, "priority": 0.6, "n_step": 1}


@pytest.mark.slow  # test_split_devices.py has a quick run that is resumed
def test_sac_learns_by_surprise_and_a_resumed_run_goes_on(tmp_path):
    settings = {**SMALL, "discount": 0.0, "updates_per_step": 0.5, "learning_rate": 3e-3, "initial_temperature": 0.01}
    name = f"{gym_environments.__file__}:Countdown"
    result = train(name, run=tmp_path / "run", algo="sac", settings=settings, total_steps=1_500, **QUICK)
    policy = load(result.run, checkpoint="latest")
    assert [policy.act(np.array([left, 0.5])).item() for left in (5, 3, 1)] == pytest.approx([2.0] * 3, abs=0.3)
    assert train(resume=result.run, total_steps=result.step + 300, quiet=True).finished


def test_dqn_changes_priorities_while_it_learns(pipeline_config, at_work):
    settings = DQNConfig(**{**SMALL, "hidden": (8,), "replay_size": 300, "priority": 1.0})
    with at_work(pipeline_config("Faulty", algo="dqn", settings=settings)) as pipeline:
        trainer = pipeline.trainer
        pipeline.until(lambda: trainer.samples > 2000)
        _, _, weight = trainer.feed.take()
    assert weight.min() < 0.8 and (weight.max(axis=1) == 1.0).all()
