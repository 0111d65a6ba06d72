"""The fused loop: compiled once, the same bits every time, and resumed as if it had not stopped."""

import json

import jax
import numpy as np
import pytest

from slipstream.runs.checkpoint import checkpoint_names, load_checkpoint, save_checkpoint
from slipstream.runs.directory import RunDirectory, RunError
from slipstream.runs.metrics import read_metrics
from slipstream.training.api import train
from slipstream.training.config_json import from_json, to_json
from slipstream.training.fused import FusedTrainer


def flat(trainer: FusedTrainer) -> dict[str, np.ndarray]:
    """Everything that a checkpoint would keep."""
    return {f"{part}/{name}": a for part, arrays in trainer.save()[0].items() for name, a in arrays.items()}


def everything(run: RunDirectory, which: str = "latest") -> dict[str, dict[str, np.ndarray]]:
    checkpoint = load_checkpoint(run, which)
    return {part: checkpoint.part(part) for part in ("actor", "learner", "worlds")}


@pytest.mark.parametrize(("world", "group"), [("Walker", "walker"), ("Pull", "hand")])
@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_everything_is_traced_once(make_config, trained, world, group, algo):
    trainer = trained(make_config(world, (group,), algo), 4)
    assert trainer.policies._act._cache_size() == 1
    assert trainer.policies._update._cache_size() == 1
    assert trainer.worlds.engine.recordings == 1


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(make_config, trained, same):
    a, b, other = (flat(trained(make_config(seed=seed), 3)) for seed in (3, 3, 4))
    assert same(a, b)
    assert not any(np.array_equal(a[n], other[n]) for n in a if n.endswith(("weight", "state/x")))


def test_a_restored_run_goes_on_bit_for_bit(make_config, trained, save, same, tmp_path):
    config = make_config(policies=None)
    whole = trained(config, 5)
    first = trained(config, 2)
    run = save(first, tmp_path / "run")
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
    assert same(everything(whole), everything(parts))
    rows = [[row["iteration"] for row in read_metrics(run)] for run in (whole, parts)]
    assert rows == [[1, 2, 3, 4, 5]] * 2


def test_a_run_can_go_back_and_its_metrics_have_no_duplicates(make_config, same, tmp_path):
    config = make_config(report_every=0.0, checkpoint_every=0.0, keep_checkpoints=2)
    train(config, run=tmp_path / "run", quiet=True)
    run = RunDirectory.open(tmp_path / "run")
    before = everything(run, "step-000000000080")
    train(resume=run.path, checkpoint="step-000000000064", quiet=True)
    assert [row["iteration"] for row in read_metrics(run)] == [1, 2, 3, 4, 5]
    assert same(before, everything(run))


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
    RunDirectory.create(tmp_path / "killed", to_json(config)).release()
    train(resume=tmp_path / "killed", quiet=True)
    whole, resumed = (everything(RunDirectory.open(tmp_path / n)) for n in ("whole", "killed"))
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
    parts = everything(run)
    lacking = {
        "worlds": {n: a for n, a in parts["worlds"].items() if not n.startswith("slot/")},
        "learner": {n: a for n, a in parts["learner"].items() if not n.startswith("age/")},
    }
    for i, (part, arrays) in enumerate(lacking.items()):
        save_checkpoint(run, 100 + i, {**parts, part: arrays}, checkpoint.facts, 9)
        with pytest.raises(RunError, match="does not fit"):
            FusedTrainer(make_config()).restore(load_checkpoint(run), "It")
    save_checkpoint(run, 200, parts, {}, 9)
    with pytest.raises(RunError, match="does not fit: it does not say its iteration"):
        FusedTrainer(make_config()).restore(load_checkpoint(run), "It")


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
    for name, array in load_checkpoint(run).part("learner").items():
        assert np.all(np.isfinite(array)), name
    assert all(np.isfinite(row["agent/value_loss"]) for row in rows)


def test_the_configuration_survives_its_file(make_config, policy):
    duels = {"red": policy("red", algo="a2c", frozen=True), "blue": policy("blue", settings=dict(target_kl=0.02))}
    config = make_config("Duels", policies=duels, stop_at_return=2.5, evaluate_every=7)
    assert from_json(json.loads(json.dumps(to_json(config)))) == config


def test_schedules_go_by_the_age_of_the_agent_not_of_the_run(make_config, policy, trained):
    fading = {"walker": policy("walker", settings=dict(learning_rate=1e-2, learning_rate_final=0.0))}
    config = make_config(policies=fading)
    old = trained(config, 4)
    young = FusedTrainer(config)
    young.adopt(old.save()[0]["learner"], "It")
    assert young.iteration == 0 and young.ages == old.ages == {"walker": 4 * 16}
    assert float(young.iterate()["walker"]["learning_rate"]) == pytest.approx(1e-2 * (1 - 4 / 5))


def test_reporting_changes_nothing(make_config, trained, same):
    quiet, talkative = FusedTrainer(make_config()), FusedTrainer(make_config())
    for _ in range(3):
        quiet.iterate()
        talkative.iterate()
        talkative.totals(), talkative.seconds_spent()
    assert same(flat(quiet), flat(talkative))


def test_an_agent_is_learned_from_in_place(make_config):
    trainer = FusedTrainer(make_config())
    before = jax.tree.leaves(trainer.states)
    trainer.iterate()
    assert all(array.is_deleted() for array in before), "the state is donated to the update"
