"""The fused loop: compiled once, the same bits every time, and resumed as if it had not stopped."""

import json

import numpy as np
import pytest

from slipstream.runs.checkpoint import Checkpoint, checkpoint_names, load_checkpoint
from slipstream.runs.directory import RunDirectory, RunError
from slipstream.runs.metrics import read_metrics
from slipstream.training.api import train
from slipstream.training.fused import FusedTrainer, _save


@pytest.mark.parametrize(("world", "group"), [("Walker", "walker"), ("Pull", "hand")])
@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_everything_is_traced_once(make_config, trained, world, group, algo):
    trainer = trained(make_config(world, (group,), algo), 4)
    assert trainer.policies._act._cache_size() == 1
    assert trainer.policies._update._cache_size() == 1
    assert trainer.worlds.engine.recordings == 1


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(make_config, trained, same):
    a, b, other = (trained(make_config(seed=seed), 3).save()[0] for seed in (3, 3, 4))
    assert same(a, b)
    assert not any(np.array_equal(a[n], other[n]) for n in a if n.endswith("weight") or n == "worlds/state/x")


def test_a_restored_run_goes_on_bit_for_bit(make_config, trained, same, tmp_path):
    config = make_config(policies=None)
    whole = trained(config, 5)
    first = trained(config, 2)
    run = RunDirectory.create(tmp_path / "run", config.to_json())
    _save(first, run)
    second = FusedTrainer(config)
    second.restore(load_checkpoint(run), "it")
    assert second.step == first.step == 2 * 16
    for _ in range(3):
        second.iterate()
    assert same(second.save()[0], whole.save()[0])
    assert second.policies._act._cache_size() == 1 and second.policies._update._cache_size() == 1


def test_a_run_resumed_from_disk_ends_like_one_that_did_not_stop(make_config, same, tmp_path):
    config = make_config(report_every=0.0, checkpoint_every=0.0)
    train(config, run=tmp_path / "whole", quiet=True)
    short = make_config(report_every=0.0, checkpoint_every=0.0, total_steps=2 * 16)
    train(short, run=tmp_path / "parts", quiet=True)
    result = train(resume=tmp_path / "parts", total_steps=5 * 16, quiet=True)
    assert result.finished and result.step == 5 * 16
    whole, parts = (RunDirectory.open(tmp_path / n) for n in ("whole", "parts"))
    assert same(load_checkpoint(whole).arrays, load_checkpoint(parts).arrays)
    rows = [[row["iteration"] for row in read_metrics(run)] for run in (whole, parts)]
    assert rows == [[1, 2, 3, 4, 5]] * 2


def test_a_run_can_go_back_and_its_metrics_have_no_duplicates(make_config, same, tmp_path):
    config = make_config(report_every=0.0, checkpoint_every=0.0, keep_checkpoints=2)
    train(config, run=tmp_path / "run", quiet=True)
    run = RunDirectory.open(tmp_path / "run")
    before = load_checkpoint(run, "step-000000000080").arrays
    train(resume=run.path, checkpoint="step-000000000064", quiet=True)
    assert [row["iteration"] for row in read_metrics(run)] == [1, 2, 3, 4, 5]
    assert same(before, load_checkpoint(run).arrays)


def test_what_is_saved_after_going_back_is_the_latest(make_config, tmp_path):
    config = make_config(report_every=0.0, checkpoint_every=0.0, keep_checkpoints=3)
    train(config, run=tmp_path / "run", quiet=True)
    run = RunDirectory.open(tmp_path / "run")
    oldest, *later = checkpoint_names(run)[-3:]
    train(resume=run.path, checkpoint=oldest, total_steps=3 * 16, quiet=True)
    assert load_checkpoint(run).name == oldest
    assert set(later) < set(checkpoint_names(run))


def test_a_run_without_a_checkpoint_is_resumed_from_its_beginning(make_config, same, tmp_path):
    config = make_config()
    train(config, run=tmp_path / "whole", quiet=True)
    RunDirectory.create(tmp_path / "killed", config.to_json()).release()
    train(resume=tmp_path / "killed", quiet=True)
    whole, resumed = (load_checkpoint(RunDirectory.open(tmp_path / n)).arrays for n in ("whole", "killed"))
    assert same(whole, resumed)


def test_a_checkpoint_of_other_worlds_or_networks_does_not_fit(make_config, policy, tmp_path):
    train(make_config(total_steps=16), run=tmp_path / "run", quiet=True)
    run = RunDirectory.open(tmp_path / "run")
    checkpoint = load_checkpoint(run)
    with pytest.raises(RunError, match="does not fit: its worlds have another state"):
        FusedTrainer(make_config(num_worlds=5)).restore(checkpoint, "It")
    wide = {"walker": policy("walker", settings=dict(hidden=(9,)))}
    with pytest.raises(RunError, match=r"does not fit: array .* is \[8, 2\], expected \[9, 2\]"):
        FusedTrainer(make_config(policies=wide)).restore(checkpoint, "It")
    named = {"other": policy("walker")}
    with pytest.raises(RunError, match="another kind of run"):
        FusedTrainer(make_config(policies=named)).restore(checkpoint, "It")
    for missing in ("facts", "slot"):
        arrays = {n: a for n, a in checkpoint.arrays.items() if missing != "slot" or not n.startswith("slot/")}
        facts = {} if missing == "facts" else checkpoint.facts
        with pytest.raises(RunError, match="does not fit"):
            FusedTrainer(make_config()).restore(Checkpoint("step-0", 0, arrays, facts), "It")


def test_rows_of_metrics_say_how_fast_and_how_well(make_config, tmp_path):
    result = train(make_config(report_every=0.0), run=tmp_path / "run", quiet=True)
    rows = read_metrics(RunDirectory.open(tmp_path / "run"))
    assert [row["step"] for row in rows] == [16, 32, 48, 64, 80]
    for row in rows:
        assert row["time/simulation"] + row["time/inference"] + row["time/update"] == pytest.approx(1.0)
        assert row["steps_per_second"] > 0 and row["broken_worlds"] == 0
        assert {"walker/policy_loss", "walker/value_loss", "walker/entropy", "walker/kl"} <= set(row)
    # 4 worlds with episodes of at most 6 steps, 20 steps each.
    assert sum(row["episodes"] for row in rows) >= 4 * 3
    ended = [row for row in rows if row["episodes"]]
    assert result.returns["walker"] == ended[-1]["return/walker"]


def test_broken_worlds_are_counted_and_training_goes_on(make_config, tmp_path):
    train(make_config("Fragile", ("agent",), report_every=0.0), run=tmp_path / "run", quiet=True)
    run = RunDirectory.open(tmp_path / "run")
    rows = read_metrics(run)
    assert sum(row["broken_worlds"] for row in rows) > 0
    for name, array in load_checkpoint(run).arrays.items():
        assert np.all(np.isfinite(array)), name
    assert all(np.isfinite(row["agent/value_loss"]) for row in rows)


def test_the_configuration_survives_its_file(make_config, policy):
    from slipstream.training.config import TrainConfig

    duels = {"red": policy("red", algo="a2c", frozen=True), "blue": policy("blue", settings=dict(target_kl=0.02))}
    config = make_config("Duels", policies=duels, stop_at_return=2.5, evaluate_every=7)
    assert TrainConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
