"""Checkpoints: complete or not there, kept as asked, and with one copy of their replay."""

import json
import os

import numpy as np
import pytest
from full_disk import disk_full_after
from killed import Killed, killed_before
from safetensors.numpy import load_file

from slipstream.runs.checkpoint import (
    MANIFEST,
    Streamed,
    best_score,
    checkpoint_names,
    load_checkpoint,
    newest,
    save_checkpoint,
)
from slipstream.runs.directory import RunDirectory, RunError

ACTOR = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array(7), "flag": np.array([True, False])}


def replay(value: float = 0.0) -> Streamed:
    return Streamed((4, 3), np.float32, lambda: [np.full((2, 3), value, np.float32)] * 2)


def save(run, step, score=None, keep=3, with_replay=False, **parts):
    """A checkpoint whose learner, and replay, know their step."""
    parts = {"actor": ACTOR, "learner": {"step": np.array(step)}, **parts}
    if with_replay:
        parts["replay"] = {"rows": replay(step)}
    return save_checkpoint(run, step, parts, {"iteration": step}, keep, score)


def steps(run) -> list[int]:
    return [int(name.removeprefix("step-")) for name in checkpoint_names(run)]


def assert_same(found, expected):
    assert set(found) == set(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)
        assert found[name].dtype == value.dtype


def test_what_is_saved_is_what_is_loaded(run):
    save(run, 10, score=2.5)
    loaded = load_checkpoint(run)
    assert (loaded.name, loaded.step, loaded.score) == ("step-000000000010", 10, 2.5)
    assert loaded.facts == {"iteration": 10} and loaded.parts == ("actor", "learner")
    assert_same(loaded.part("actor"), ACTOR)
    assert_same(loaded.part("learner"), {"step": np.array(10)})


def test_every_part_is_a_file_that_any_program_can_read_and_nothing_is_a_pickle(run):
    folder = save(run, 1, with_replay=True)
    files = ["actor.safetensors", "learner.safetensors", MANIFEST, "replay.safetensors"]
    assert sorted(p.name for p in folder.iterdir()) == files
    assert_same(load_file(folder / "actor.safetensors"), ACTOR)
    assert set(json.loads((folder / MANIFEST).read_text())["parts"]) == {"actor", "learner", "replay"}


def test_a_part_is_read_without_the_others(run):
    folder = save(run, 1)
    (folder / "learner.safetensors").unlink()
    assert_same(load_checkpoint(run).part("actor"), ACTOR)


def test_arrays_that_are_not_contiguous_survive(run):
    save(run, 1, turned={"t": ACTOR["w"].T})
    np.testing.assert_array_equal(load_checkpoint(run).part("turned")["t"], ACTOR["w"].T)


def test_a_part_that_a_checkpoint_never_had_is_answered_with_those_it_has(run):
    save(run, 1)
    with pytest.raises(RunError, match=r"has no part 'critic'; it has actor, learner\."):
        load_checkpoint(run).part("critic")


@pytest.mark.parametrize("name", ["Actor", "a/b", "", "..", "part2"])
def test_a_part_with_a_name_that_is_no_word_is_refused(run, name):
    with pytest.raises(ValueError, match="named by small letters and underscores"):
        save(run, 1, **{name: {}})
    assert list(run.checkpoints.iterdir()) == []


def test_the_last_ones_and_the_best_are_kept(run):
    for step, score in enumerate([1.0, 5.0, 3.0, 2.0, 4.0]):
        save(run, step, score, keep=2)
    assert steps(run) == [1, 3, 4]
    assert load_checkpoint(run).step == 4
    assert load_checkpoint(run, "best").step == 1 and best_score(run) == 5.0


def test_of_equal_ones_the_earlier_is_the_best(run):
    for step in (10, 20, 30, 40):
        save(run, step, score=7.0, keep=1)
    assert steps(run) == [10, 40] and load_checkpoint(run, "best").step == 10
    save(run, 5, score=7.0)
    assert load_checkpoint(run, "best").step == 10, "earlier is what was written earlier"


def test_without_a_score_the_best_is_the_latest(run):
    save(run, 1)
    save(run, 2, float("nan"))
    assert load_checkpoint(run, "best").step == 2 and best_score(run) == -float("inf")


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
    assert load_checkpoint(run).step == newest(run).step == 15


def test_saving_the_same_step_again_replaces_it(run):
    save(run, 5, score=3.0)
    save(run, 5, extra={})
    assert steps(run) == [5] and load_checkpoint(run).parts == ("actor", "learner", "extra")
    assert best_score(run) == -float("inf"), "the one with the score is no more"
    assert [p.name for p in run.checkpoints.iterdir()] == ["step-000000000005"]


def test_a_run_without_checkpoints_says_so(run):
    with pytest.raises(RunError, match="has no checkpoint yet"):
        load_checkpoint(run)
    assert newest(run) is None


# One copy of the replay.


def replays(run) -> list[int]:
    """The steps whose checkpoints have a replay; each must be that of its step."""
    found = [load_checkpoint(run, name) for name in checkpoint_names(run)]
    holders = [c for c in found if "replay" in c.parts]
    for c in holders:
        for arrays in (c.part("replay"), c.open_part("replay")):
            np.testing.assert_array_equal(arrays["rows"], np.full((4, 3), c.step, np.float32))
    return [c.step for c in holders]


def test_only_the_newest_replay_is_kept_and_the_rest_still_loads(run):
    for step, score in [(1, 9.0), (2, None), (3, None)]:
        save(run, step, score, with_replay=True)
        assert replays(run) == [step]
    assert steps(run) == [1, 2, 3]
    best = load_checkpoint(run, "best")
    assert best.step == 1 and best.parts == ("actor", "learner")
    assert_same(best.part("actor"), ACTOR)
    for read in (best.part, best.open_part):
        with pytest.raises(RunError, match=r"no longer has its replay.*with --checkpoint: step-000000000003\."):
            read("replay")


def test_a_checkpoint_without_a_replay_leaves_the_earlier_one_where_it_is(run):
    save(run, 1, with_replay=True)
    for step in (2, 3, 4):
        save(run, step, keep=1)
    assert steps(run) == [1, 4] and replays(run) == [1]
    save(run, 5, keep=1, with_replay=True)
    assert steps(run) == [5] and replays(run) == [5]


def test_a_replay_that_is_missing_though_nothing_took_its_place_is_damage(run):
    folder = save(run, 1, with_replay=True)
    (folder / "replay.safetensors").unlink()
    with pytest.raises(RunError, match=r"is damaged: replay\.safetensors: No such file"):
        load_checkpoint(run).part("replay")


# Atomic.


def whole_ones(run) -> list[int]:
    """Steps of the checkpoints there are; each must have all that is said to be in it."""
    for name in checkpoint_names(run):
        checkpoint = load_checkpoint(run, name)
        assert set(checkpoint.parts) >= {"actor", "learner"}
        for part in checkpoint.parts:
            checkpoint.part(part)
        assert checkpoint.part("learner")["step"] == checkpoint.step == checkpoint.facts["iteration"]
    return [load_checkpoint(run, name).step for name in checkpoint_names(run)]


@pytest.mark.parametrize("again", [False, True], ids=["a new step", "the same step again"])
def test_a_kill_at_any_moment_leaves_whole_checkpoints_and_a_replay(tmp_path, again):
    last = 20 if again else 30
    for change in range(1000):
        run = RunDirectory.create(tmp_path / str(change), {})
        save(run, 10, score=1.0, keep=1, with_replay=True)
        save(run, 20, keep=1, with_replay=True)
        try:
            with killed_before(change):
                save(run, last, keep=1, with_replay=True)
            killed = False
        except Killed:
            killed = True
        assert load_checkpoint(run, "best").step == 10
        assert load_checkpoint(run).step in (20, last)
        assert set(replays(run)) & {20, last}
        assert whole_ones(run)
        # The process that resumes mends what is left.
        save(run, 40, keep=1, with_replay=True)
        assert whole_ones(run) == [10, 40] and replays(run) == [40]
        assert sorted(p.name for p in run.checkpoints.iterdir()) == ["step-000000000010", "step-000000000040"]
        run.release()
        if not killed:
            assert change > 8
            return
    raise AssertionError("it never ended")


def test_a_kill_while_writing_leaves_the_earlier_one_and_no_traces(run):
    save(run, 1)

    def die():
        yield np.zeros((2, 3), np.float32)
        raise Killed

    with pytest.raises(Killed):
        save(run, 2, replay={"rows": Streamed((4, 3), np.float32, die)})
    assert list(run.checkpoints.glob(".step-*"))
    assert whole_ones(run) == [1]
    save(run, 3)
    assert not list(run.checkpoints.glob(".step-*"))
    assert whole_ones(run) == [1, 3]


def test_a_stream_that_fails_leaves_nothing(run):
    save(run, 1)
    with pytest.raises(ValueError, match="have 0 bytes, expected 48"):
        save(run, 2, replay={"rows": Streamed((4, 3), np.float32, list)})
    assert [p.name for p in run.checkpoints.iterdir()] == ["step-000000000001"]


def test_files_reach_the_disk_before_the_checkpoint_gets_its_name_and_that_before_others_go(run, monkeypatch):
    save(run, 1, keep=1)
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda fd: (synced.append((os.readlink(f"/proc/self/fd/{fd}"), steps(run))), fsync(fd))
    )
    save(run, 2, keep=1)
    assert [(os.path.basename(path).partition(".")[0] or "folder", s) for path, s in synced] == [
        ("actor", [1]),
        ("learner", [1]),
        ("manifest", [1]),
        ("folder", [1]),
        ("checkpoints", [1, 2]),
    ]
    assert steps(run) == [2]


# A full disk.


def test_a_full_disk_is_one_clear_error_and_loses_nothing(run):
    save(run, 1, score=1.0)
    save(run, 2, score=0.5, with_replay=True)
    large = {"w": np.zeros(100_000, np.float32)}
    with disk_full_after(10_000), pytest.raises(RunError, match=r"Could not write checkpoint .*step-000000000003") as e:
        save(run, 3, score=2.0, keep=1, large=large, with_replay=True)
    assert "Earlier checkpoints are untouched" in str(e.value)
    assert whole_ones(run) == [1, 2] and replays(run) == [2]
    assert load_checkpoint(run).step == 2 and load_checkpoint(run, "best").step == 1
    assert not list(run.checkpoints.glob(".*"))
    save(run, 3, score=2.0, large=large)
    assert load_checkpoint(run, "best").step == 3
