"""Run directories: one writer at a time, and clear words for what is not one."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
    (tmp_path / "run" / "run.lock").mkdir(parents=True)
    with pytest.raises(RunError, match="Could not claim"):
        RunDirectory.create(tmp_path / "run", {})


def test_a_file_is_replaced_as_a_whole(tmp_path, monkeypatch):
    file = tmp_path / "note"
    write_atomically(file, "old")

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("slipstream.runs.directory.os.fsync", full)
    with pytest.raises(RunError, match=r"Could not write .*note: No space left on device"):
        write_atomically(file, "new")
    assert file.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["note"]


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
