"""Reading checkpoints: never what is damaged, and never half of what is being replaced."""

import random
import subprocess
import sys
import time

import numpy as np
import pytest

from slipstream.runs import reading
from slipstream.runs.checkpoint import (
    MANIFEST,
    checkpoint_names,
    load_checkpoint,
    newest,
    read_newest,
    save_checkpoint,
)
from slipstream.runs.directory import RunDirectory, RunError

PARTS = ("actor", "learner", "replay")


def save(run, step, keep=3, score=None):
    """A checkpoint in which every array is full of its step."""
    values = {"x": np.full(5, step, np.int64), "y": np.full((2, 2), step, np.float32)}
    return save_checkpoint(run, step, dict.fromkeys(PARTS, values), {"iteration": step}, keep, score)


# Damage.


def rewrite(path, change) -> None:
    path.write_bytes(change(path.read_bytes()))


DAMAGE = {
    "a flipped bit": lambda f: rewrite(f / "actor.safetensors", lambda d: d[:-1] + bytes([d[-1] ^ 1])),
    "truncated arrays": lambda f: rewrite(f / "actor.safetensors", lambda d: d[:20]),
    "no arrays": lambda f: (f / "actor.safetensors").unlink(),
    "half a manifest": lambda f: rewrite(f / MANIFEST, lambda d: d[:30]),
    "an empty manifest": lambda f: rewrite(f / MANIFEST, lambda d: b""),
    "a list as manifest": lambda f: (f / MANIFEST).write_text("[1, 2]"),
    "a foreign manifest": lambda f: (f / MANIFEST).write_text('{"weights": "model.bin"}'),
    "bytes as manifest": lambda f: (f / MANIFEST).write_bytes(b"\xff\xfe\x80"),
    "no manifest": lambda f: (f / MANIFEST).unlink(),
    "an empty folder": lambda f: [p.unlink() for p in f.iterdir()],
    "a manifest of before": lambda f: rewrite(
        f / MANIFEST, lambda d: (f.with_name("step-000000000001") / MANIFEST).read_bytes()
    ),
}


@pytest.mark.parametrize("kind", list(DAMAGE))
@pytest.mark.parametrize("which", ["latest", "best", "step-000000000002"])
def test_damage_is_one_clear_error_that_names_the_checkpoint_and_the_others(run, kind, which):
    save(run, 1, score=1.0)
    folder = save(run, 2, score=2.0)
    DAMAGE[kind](folder)
    with pytest.raises(RunError) as error:
        load_checkpoint(run, which).part("actor")
    assert f"{folder} is damaged: " in str(error.value)
    assert str(error.value).endswith("Choose another one with --checkpoint: step-000000000001.")
    with pytest.raises(RunError) as again:
        read_newest(run, which=which)
    assert str(again.value) == str(error.value)
    assert load_checkpoint(run, "step-000000000001").part("actor")["x"][0] == 1


@pytest.mark.parametrize("kind", [k for k in DAMAGE if "manifest" in k])
def test_the_newest_is_not_passed_over_for_its_manifest(run, kind):
    save(run, 1)
    DAMAGE[kind](save(run, 2))
    assert checkpoint_names(run)[-1] == "step-000000000002"
    with pytest.raises(RunError, match="is damaged"):
        newest(run)


def test_any_flipped_bit_in_any_file_is_noticed(run):
    folder = save(run, 1, score=0.25)
    files = sorted(folder.iterdir())
    assert len(files) == 1 + len(PARTS)
    rng = random.Random(0)
    for _ in range(400):
        file = rng.choice(files)
        data = file.read_bytes()
        flipped = bytearray(data)
        flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        file.write_bytes(flipped)
        for read in ("part", "open_part"):
            with pytest.raises(RunError, match="is damaged"):
                checkpoint = load_checkpoint(run)
                getattr(checkpoint, read)(file.name.removesuffix(".safetensors"))
        file.write_bytes(data)
    assert load_checkpoint(run).part("actor")["x"][0] == 1


def test_damage_to_an_old_checkpoint_does_not_stop_new_ones(run):
    for step in (1, 2):
        DAMAGE["half a manifest"](save(run, step))
    for step in (3, 4, 5):
        save(run, step, keep=1)
        assert load_checkpoint(run).step == step
    aside = sorted(p.name for p in run.checkpoints.iterdir())
    assert aside == ["damaged-step-000000000001", "damaged-step-000000000002", "step-000000000005"]
    assert "step-000000000002 is damaged" in (run.path / "log.txt").read_text()


# While another process writes.


def test_a_part_of_a_checkpoint_that_was_dropped_is_said_to_be(run):
    save(run, 1)
    old = load_checkpoint(run)
    save(run, 2, keep=1)
    with pytest.raises(RunError, match=r"step-000000000001 was dropped or replaced while it was being read"):
        old.part("actor")


def test_a_part_of_a_checkpoint_that_was_replaced_is_not_mistaken_for_damage(run):
    save(run, 1)
    old = load_checkpoint(run)
    values = {"x": np.zeros(3)}
    save_checkpoint(run, 1, dict.fromkeys(PARTS, values), {}, 1)
    with pytest.raises(RunError, match=r"was dropped or replaced while it was being read"):
        old.part("actor")


def test_what_is_mapped_can_be_read_after_its_checkpoint_is_gone(run):
    save(run, 1)
    mapped = load_checkpoint(run).open_part("replay")
    save(run, 2, keep=1)
    np.testing.assert_array_equal(mapped["x"], np.full(5, 1))


def test_the_newest_of_a_run_without_checkpoints_is_none(run):
    assert newest(run) is None and read_newest(run) is None


def test_parts_that_were_read_with_the_checkpoint_outlive_it(run):
    save(run, 1)
    checkpoint = read_newest(run, ("actor", "learner"))
    save(run, 2, keep=1)
    assert checkpoint.part("actor")["x"][0] == checkpoint.part("learner")["x"][0] == 1
    with pytest.raises(RunError, match="was dropped"):
        checkpoint.part("replay")


def test_a_reader_asks_again_when_the_checkpoint_vanishes_between_two_parts(run, monkeypatch):
    save(run, 1)
    read = reading.Checkpoint.part

    def and_then_it_goes(self, name):
        found = read(self, name)
        if self.step == 1:
            save(run, 2, keep=1)
        return found

    monkeypatch.setattr(reading.Checkpoint, "part", and_then_it_goes)
    checkpoint = read_newest(run, ("actor", "learner"))
    assert checkpoint.step == 2 and set(checkpoint.part("learner")["x"]) == {2}


WRITE = """
import sys
sys.path.insert(0, sys.argv[2])
from slipstream.runs.directory import RunDirectory
from test_reading import save
run = RunDirectory.open(sys.argv[1])
run.claim()
step = 0
while True:
    step += 1
    # Scores go up and down, so that the best changes; every step is written twice.
    for _ in range(2):
        save(run, step, keep=1, score=float(step + 10 * (step % 3 == 0)))
"""


def test_a_reader_always_gets_a_whole_checkpoint_while_another_process_saves_and_drops(tmp_path):
    RunDirectory.create(tmp_path / "run", {}).release()
    run = RunDirectory.open(tmp_path / "run")
    writer = subprocess.Popen([sys.executable, "-c", WRITE, str(run.path), str(__file__).rpartition("/")[0]])
    try:
        while newest(run) is None:
            assert writer.poll() is None
            time.sleep(0.01)
        seen, last, reads, deadline = set(), 0, 0, time.monotonic() + 60
        while (reads < 200 or len(seen) < 5) and time.monotonic() < deadline:
            which = ("latest", "best")[reads % 2]
            reads += 1
            checkpoint = read_newest(run, PARTS if which == "latest" else ("actor", "learner"), which)
            assert checkpoint is not None
            for part in checkpoint._read:
                arrays = checkpoint.part(part)
                assert set(arrays["x"]) == {checkpoint.step} and set(arrays["y"].ravel()) == {checkpoint.step}
            if which == "latest":
                assert checkpoint.step >= last
                last = checkpoint.step
                latest = newest(run)
                assert latest is not None and latest.step >= last
            seen.add(checkpoint.step)
        assert writer.poll() is None and len(seen) >= 5
    finally:
        writer.kill()
        writer.wait()
