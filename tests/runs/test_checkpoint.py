"""Checkpoints: complete or not there, kept as asked, and never read when damaged."""

import hashlib
import json
import os

import numpy as np
import pytest
from full_disk import disk_full_after

from slipstream.runs import checkpoint as module
from slipstream.runs.checkpoint import ARRAYS, BEST, MANIFEST, checkpoint_names, load_checkpoint, save_checkpoint
from slipstream.runs.directory import RunDirectory, RunError

VALUES = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array(7), "flag": np.array([True, False])}


@pytest.fixture
def run(tmp_path):
    directory = RunDirectory.create(tmp_path / "run", {"env": "test"})
    yield directory
    directory.release()


def save(run, step, score=None, keep=3, arrays=VALUES):
    return save_checkpoint(run, step, arrays, {"iteration": step}, keep, score)


def steps(run) -> list[int]:
    return [int(name.removeprefix("step-")) for name in checkpoint_names(run)]


def test_what_is_saved_is_what_is_loaded(run):
    save(run, 10)
    loaded = load_checkpoint(run)
    assert (loaded.step, loaded.facts) == (10, {"iteration": 10})
    assert set(loaded.arrays) == set(VALUES)
    for name, value in VALUES.items():
        np.testing.assert_array_equal(loaded.arrays[name], value)
        assert loaded.arrays[name].dtype == value.dtype


def test_arrays_that_are_not_contiguous_survive(run):
    save(run, 1, arrays={"t": VALUES["w"].T})
    np.testing.assert_array_equal(load_checkpoint(run).arrays["t"], VALUES["w"].T)


def test_the_last_ones_and_the_best_are_kept(run):
    for step, score in enumerate([1.0, 5.0, 3.0, 2.0, 4.0]):
        save(run, step, score, keep=2)
    assert steps(run) == [1, 3, 4]
    assert load_checkpoint(run).step == 4
    assert load_checkpoint(run, "best").step == 1


def test_without_a_score_the_best_is_the_latest(run):
    save(run, 1)
    save(run, 2, float("nan"))
    assert load_checkpoint(run, "best").step == 2


def test_a_wrong_name_is_answered_with_the_right_ones(run):
    save(run, 1)
    save(run, 2)
    assert load_checkpoint(run, "step-000000000001").step == 1
    with pytest.raises(RunError, match=r"no checkpoint 'step-3'; it has step-000000000001, step-000000000002"):
        load_checkpoint(run, "step-3")


def test_after_going_back_new_checkpoints_are_the_latest_and_are_kept(run):
    for step in (10, 20, 30):
        save(run, step)
    save(run, 15)
    assert steps(run) == [20, 30, 15]
    assert load_checkpoint(run).step == 15


def test_saving_the_same_step_again_replaces_it(run):
    save(run, 5)
    save(run, 5, arrays={"w": np.zeros(2, np.float32)})
    assert steps(run) == [5] and set(load_checkpoint(run).arrays) == {"w"}


def test_a_run_without_checkpoints_says_so(run):
    with pytest.raises(RunError, match="has no checkpoint yet"):
        load_checkpoint(run)


# Atomic.


class Killed(BaseException):
    """What a kill is like: nothing after it runs, and nobody handles it."""


@pytest.mark.parametrize("victim", [ARRAYS, MANIFEST])
def test_a_half_written_checkpoint_is_not_seen_and_its_remains_go_with_the_next_one(run, monkeypatch, victim):
    save(run, 1)
    whole = module._write_synced

    def die(path, data):
        whole(path, data[: len(data) // 2] if path.name == victim else data)
        if path.name == victim:
            raise Killed

    monkeypatch.setattr(module, "_write_synced", die)
    with pytest.raises(Killed):
        save(run, 2)
    monkeypatch.undo()
    assert list(run.checkpoints.glob(".step-*"))
    assert steps(run) == [1] and load_checkpoint(run).step == 1
    save(run, 3)
    assert not list(run.checkpoints.glob(".step-*"))
    assert steps(run) == [1, 3]


def test_a_kill_while_old_ones_are_removed_leaves_no_half_of_them(run, monkeypatch):
    save(run, 1, keep=1)

    def die(path, *_, **__):
        (path / ARRAYS).unlink()
        raise Killed

    monkeypatch.setattr(module.shutil, "rmtree", die)
    with pytest.raises(Killed):
        save(run, 2, keep=1)
    monkeypatch.undo()
    assert steps(run) == [2] and load_checkpoint(run).step == 2


def test_files_reach_the_disk_before_the_checkpoint_gets_its_name(run, monkeypatch):
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(module.os, "fsync", lambda fd: (synced.append(steps(run)), fsync(fd)))
    save(run, 1)
    assert synced == [[], []]


# Damage.


def flip_a_bit(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


DAMAGE = {
    "a flipped bit": lambda f: flip_a_bit(f / ARRAYS),
    "truncated arrays": lambda f: (f / ARRAYS).write_bytes((f / ARRAYS).read_bytes()[:20]),
    "no arrays": lambda f: (f / ARRAYS).unlink(),
    "half a manifest": lambda f: (f / MANIFEST).write_text('{"step": 1, "sha'),
    "an empty manifest": lambda f: (f / MANIFEST).write_text(""),
    "a list as manifest": lambda f: (f / MANIFEST).write_text("[1, 2]"),
    "a foreign manifest": lambda f: (f / MANIFEST).write_text('{"weights": "model.bin"}'),
    "bytes as manifest": lambda f: (f / MANIFEST).write_bytes(b"\xff\xfe\x80"),
}


@pytest.mark.parametrize("kind", list(DAMAGE))
def test_damage_is_one_clear_error_that_names_the_checkpoint_and_the_others(run, kind):
    save(run, 1)
    folder = save(run, 2)
    DAMAGE[kind](folder)
    with pytest.raises(RunError) as error:
        load_checkpoint(run)
    assert str(folder) in str(error.value) and "--checkpoint: step-000000000001" in str(error.value)
    assert load_checkpoint(run, "step-000000000001").step == 1


def test_a_foreign_file_with_the_right_checksum_is_refused(run):
    folder = save(run, 1)
    data = b"\x80\x04\x95 not safetensors"
    (folder / ARRAYS).write_bytes(data)
    manifest = json.loads((folder / MANIFEST).read_text()) | {"sha256": hashlib.sha256(data).hexdigest()}
    (folder / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(RunError, match="damaged or not Slipstream's"):
        load_checkpoint(run)


def test_damage_to_an_old_checkpoint_does_not_stop_new_ones(run):
    for step in (1, 2):
        DAMAGE["half a manifest"](save(run, step))
    for step in (3, 4, 5):
        save(run, step, keep=1)
        assert load_checkpoint(run, f"step-{step:012d}").step == step


@pytest.mark.parametrize("text", ["", "[]", '{"name": "step-000000000001"}', '{"score": "high", "name": 1}'])
def test_a_damaged_note_of_the_best_is_named(run, text):
    save(run, 1, score=1.0)
    (run.checkpoints / BEST).write_text(text)
    with pytest.raises(RunError, match=BEST):
        load_checkpoint(run, "best")


# A full disk.


def test_a_full_disk_is_one_clear_error_and_loses_nothing(run):
    save(run, 1, score=1.0)
    save(run, 2, score=0.5)
    large = {"w": np.zeros(100_000, np.float32)}
    with disk_full_after(10_000), pytest.raises(RunError, match=r"Could not write checkpoint .*step-000000000003") as e:
        save(run, 3, score=2.0, keep=1, arrays=large)
    assert "Earlier checkpoints are untouched" in str(e.value)
    assert steps(run) == [1, 2]
    assert load_checkpoint(run).step == 2 and load_checkpoint(run, "best").step == 1
    assert not list(run.checkpoints.glob(".*"))
    save(run, 3, score=2.0, arrays=large)
    assert load_checkpoint(run, "best").step == 3


def test_nothing_in_a_checkpoint_is_a_pickle(run):
    folder = save(run, 1)
    assert sorted(p.name for p in folder.iterdir()) == [ARRAYS, MANIFEST]
    data = (folder / ARRAYS).read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert set(VALUES) <= set(header)
    json.loads((folder / MANIFEST).read_text())
