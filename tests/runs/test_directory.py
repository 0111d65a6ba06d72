"""Run directories: one writer at a time, and clear words for what is not one."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from full_disk import disk_full_after
from killed import Killed, killed_before

import slipstream
from slipstream.runs.directory import CONFIG, FORMAT, RunDirectory, RunError, new_run_name, write_atomically


def test_a_new_run_keeps_its_configuration(tmp_path):
    run = RunDirectory.create(tmp_path / "deep" / "run", {"env": "cartpole", "seed": 3})
    assert RunDirectory.open(run.path).config() == {"format": FORMAT, "env": "cartpole", "seed": 3}


def test_a_directory_that_holds_a_run_is_not_taken_for_another(tmp_path):
    RunDirectory.create(tmp_path, {"env": "a"}).release()
    with pytest.raises(RunError, match=f"already holds a run. Continue it with --resume {re.escape(str(tmp_path))}"):
        RunDirectory.create(tmp_path, {"env": "b"})
    assert RunDirectory.open(tmp_path).config()["env"] == "a"


def test_two_claims_do_not_go_together(tmp_path):
    first = RunDirectory.create(tmp_path, {})
    with pytest.raises(RunError, match=r"already in use by process \d+"):
        RunDirectory.open(tmp_path).claim()
    first.release()
    second = RunDirectory.open(tmp_path)
    second.claim()
    second.release()


CLAIM = """
import sys
from slipstream.runs.directory import RunDirectory
run = RunDirectory.open(sys.argv[1])
run.claim()
print("claimed", flush=True)
sys.stdin.read()
"""


def test_a_run_of_another_process_is_refused_by_its_number_until_that_dies(tmp_path):
    RunDirectory.create(tmp_path, {}).release()
    command = [sys.executable, "-c", CLAIM, str(tmp_path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "claimed\n"
        with pytest.raises(RunError, match=f"already in use by process {holder.pid}"):
            RunDirectory.open(tmp_path).claim()
    finally:
        holder.kill()
        holder.communicate()
    run = RunDirectory.open(tmp_path)
    run.claim()
    run.release()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", f"{CONFIG} is damaged"),
        ('{"env": "a"}', "run format None"),
        ('{"format": 99}', "run format 99"),
        ("[]", "run format None"),
        ('{"format": 1}', "run format 1; this version of Slipstream reads 2"),
    ],
)
def test_a_configuration_that_is_not_ours_is_named(tmp_path, text, message):
    (tmp_path / CONFIG).write_text(text)
    with pytest.raises(RunError, match=message):
        RunDirectory.open(tmp_path)


def test_what_is_no_run_is_said_so(tmp_path):
    with pytest.raises(RunError, match="There is no run directory"):
        RunDirectory.open(tmp_path / "nothing")
    with pytest.raises(RunError, match=f"is not a run directory: it has no {CONFIG}"):
        RunDirectory.open(tmp_path)


def test_a_file_in_the_way_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="Could not create"):
        RunDirectory.create(tmp_path / "file" / "run", {})
    with pytest.raises(RunError, match=r"Could not create .*file: "):
        RunDirectory.create(tmp_path / "file", {})
    run = RunDirectory.create(tmp_path / "run", {})
    run.release()
    (run.path / "run.lock").unlink()
    (run.path / "run.lock").mkdir()
    with pytest.raises(RunError, match="Could not claim"):
        run.claim()


def test_a_foreign_directory_is_not_written_to_and_an_empty_one_is_fine(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letters.txt").write_text("dear")
    with pytest.raises(RunError, match=r"mine is not empty, and what is in it \(letters.txt\) is no run"):
        RunDirectory.create(tmp_path / "mine", {})
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["letters.txt"]
    (tmp_path / "empty").mkdir()
    RunDirectory.create(tmp_path / "empty", {}).release()


@pytest.mark.parametrize("size", [0, 5, 30], ids=["no byte", "half a lock", "half a configuration"])
@pytest.mark.parametrize("existing", [".", "a", "a/b/run"])
def test_a_full_disk_leaves_no_half_of_a_new_run(tmp_path, size, existing):
    (tmp_path / existing).mkdir(parents=True, exist_ok=True)
    before = sorted(tmp_path.rglob("*"))
    with (
        disk_full_after(size),
        pytest.raises(RunError, match=r"Could not (claim|write) .*a/b/run.*: File too large\.$"),
    ):
        RunDirectory.create(tmp_path / "a" / "b" / "run", {"env": "cartpole" * 10})
    assert sorted(tmp_path.rglob("*")) == before
    RunDirectory.create(tmp_path / "a" / "b" / "run", {}).release()


def test_whoever_comes_second_leaves_the_run_of_the_first_alone(tmp_path, monkeypatch):
    """Both find the directory empty; one claims it first."""
    (tmp_path / "run").mkdir()
    claim = RunDirectory.claim
    first = []

    def late(self):
        if not first:
            first.append(None)
            first[0] = RunDirectory.create(tmp_path / "run", {"env": "first"})
        claim(self)

    monkeypatch.setattr(RunDirectory, "claim", late)
    with pytest.raises(RunError, match="already in use"):
        RunDirectory.create(tmp_path / "run", {"env": "second"})
    first[0].release()
    first.clear()
    (tmp_path / "other").mkdir()

    def later(self):
        if not first:
            first.append(None)
            RunDirectory.create(tmp_path / "other", {"env": "first"}).release()
        claim(self)

    monkeypatch.setattr(RunDirectory, "claim", later)
    with pytest.raises(RunError, match="already holds a run"):
        RunDirectory.create(tmp_path / "other", {"env": "second"})
    for name in ("run", "other"):
        run = RunDirectory.open(tmp_path / name)
        assert run.config()["env"] == "first" and run.checkpoints.is_dir()


def test_the_configuration_can_be_replaced_as_a_whole(tmp_path):
    run = RunDirectory.create(tmp_path, {"env": "cartpole", "total_steps": 10})
    run.write_config({**run.config(), "total_steps": 20})
    assert RunDirectory.open(tmp_path).config() == {"format": FORMAT, "env": "cartpole", "total_steps": 20}
    with disk_full_after(10), pytest.raises(RunError, match=f"Could not write .*{CONFIG}"):
        run.write_config({"env": "cartpole", "total_steps": 30})
    assert run.config()["total_steps"] == 20


# The file of a user's own world.


@pytest.fixture
def world(tmp_path):
    file = tmp_path / "worlds" / "seek.py"
    file.parent.mkdir()
    file.write_text("class Seek: ...\n")
    return file


def test_the_source_of_a_world_is_kept_under_its_name_with_where_it_came_from(run, world, monkeypatch):
    assert run.saved_source() is None
    monkeypatch.chdir(world.parent)
    run.save_source(Path("seek.py"))
    saved = RunDirectory.open(run.path).saved_source()
    assert saved.file == run.source_dir / "seek.py" and saved.original == world
    assert saved.file.read_text() == "class Seek: ...\n" and not saved.changed


def test_a_world_that_was_changed_or_moved_since_is_noticed(run, world):
    run.save_source(world)
    world.write_text("class Seek: pass\n")
    assert run.saved_source().changed
    world.unlink()
    assert run.saved_source().changed
    assert run.saved_source().file.read_text() == "class Seek: ...\n"


def test_a_later_source_takes_the_place_of_the_earlier(run, world):
    run.save_source(world)
    world.write_text("class Seek: pass\n")
    run.save_source(world)
    assert not run.saved_source().changed and run.saved_source().file.read_text() == "class Seek: pass\n"


def test_a_damaged_source_is_named(run, world):
    run.save_source(world)
    copy, record = run.source_dir / "seek.py", run.source_dir / "manifest.json"
    copy.write_text("class Seek: ...?")
    with pytest.raises(RunError, match=r"source/seek.py is damaged"):
        run.saved_source()
    run.save_source(world)
    record.write_text(record.read_text().replace("worlds", "words"))
    with pytest.raises(RunError, match=r"source/manifest.json is damaged: its checksum does not match"):
        run.saved_source()
    with pytest.raises(RunError, match=r"Could not read .*nothing.py"):
        run.save_source(world.with_name("nothing.py"))


def test_a_kill_while_a_source_is_kept_leaves_a_whole_one_or_none(run, world):
    run.save_source(world)
    world.write_text("class Seek: pass\n")
    for change in range(50):
        try:
            with killed_before(change):
                run.save_source(world)
            break
        except Killed:
            saved = run.saved_source()
            assert saved is None or saved.file.read_text().startswith("class Seek")
    assert change > 3


def test_a_file_is_replaced_as_a_whole(tmp_path, monkeypatch):
    file = tmp_path / "note"
    write_atomically(file, "old")

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("slipstream.runs.directory.os.fsync", full)
    with pytest.raises(RunError, match=r"Could not write .*note: No space left on device"):
        write_atomically(file, "new")
    assert file.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["note"]


def test_a_log_that_cannot_be_written_is_a_clear_error(tmp_path):
    run = RunDirectory.create(tmp_path, {})
    run.log("one")
    with disk_full_after(30), pytest.raises(RunError, match=r"Could not write .*log.txt: File too large"):
        run.log("two")
    run.log("three")
    assert [line.split("  ")[1] for line in (tmp_path / "log.txt").read_text().splitlines()] == ["one", "three"]


def test_the_log_has_a_line_for_each_message(tmp_path):
    run = RunDirectory.create(tmp_path, {})
    run.log("one")
    run.log("two")
    lines = (tmp_path / "log.txt").read_text().splitlines()
    assert [line.split("  ")[1] for line in lines] == ["one", "two"]


def test_names_of_runs_sort_by_time_and_say_what_they_are():
    assert re.fullmatch(r"cartpole-ppo-\d{8}-\d{6}-seed3", new_run_name("cartpole", "ppo", 3))
    assert new_run_name("some/dir/file.py:MyWorld", "a2c", 0).startswith("myworld-a2c-")


def test_no_code_reads_or_writes_pickles():
    source = Path(slipstream.__file__).parent
    banned = re.compile(r"import pickle|from pickle|cloudpickle|joblib|np\.save\(|allow_pickle=True|torch\.(save|load)")
    offenders = [str(f.relative_to(source)) for f in source.rglob("*.py") if banned.search(f.read_text())]
    assert offenders == []
