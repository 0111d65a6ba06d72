"""`slipstream watch` and `train --watch` from the command line."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from slipstream.cli.main import BAD_INPUT, main

COMMAND = [sys.executable, "-m", "slipstream.cli.main"]
PAGE = re.compile(r"http://127\.0\.0\.1:\d+")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("nowhere",), "There is no directory nowhere: name a run"),
        ((".", "--worlds", "0"), "--worlds must be at least 1, got 0"),
        ((".", "--port", "70000"), "--port must be within 0 .. 65535, got 70000"),
    ],
)
def test_what_cannot_be_watched_is_explained_in_one_line(capsys, monkeypatch, tmp_path, arguments, complaint):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "nice", lambda by: 0)
    assert main(["watch", *arguments]) == BAD_INPUT
    err = capsys.readouterr().err
    assert complaint in err and err.count("\n") == 1 and err.startswith("slipstream watch: ")


def test_a_port_that_is_taken_is_refused_by_name_and_avoided_otherwise(tmp_path):
    from slipstream.studio import ports

    with socket.socket() as other:
        other.bind((ports.HOST, 0))
        other.listen()
        taken = other.getsockname()[1]
        with pytest.raises(ValueError, match=f"cannot be at 127.0.0.1:{taken}: .*Choose another --port"):
            ports.choose_port(ports.HOST, taken)
        usual, ports.USUAL = ports.USUAL, taken
        try:
            assert ports.choose_port(ports.HOST, None) != taken
        finally:
            ports.USUAL = usual


@pytest.mark.parametrize("option", ["--keep-watching", "--watch-port=8000"])
def test_options_of_a_page_need_a_page(capsys, option):
    assert main(["train", "cartpole", option]) == BAD_INPUT
    assert "it needs --watch" in capsys.readouterr().err


def test_a_page_beside_training_is_there_and_ends_with_it(tmp_path):
    """Also when training is killed."""
    run = tmp_path / "run"
    small = ("--run", str(run), "--seconds", "300", "--worlds", "4", "--rollout", "4", "--watch", "--quiet")
    with subprocess.Popen([*COMMAND, "train", "cartpole", *small], stderr=subprocess.PIPE, text=True) as training:
        assert training.stderr is not None
        found = PAGE.search(training.stderr.readline())
        assert found is not None
        page = _until(lambda: _children(training.pid, "watch"))[0]
        answer = _until(lambda: _answer(found.group()))
        assert b"<html" in answer.lower()
        training.send_signal(signal.SIGKILL)
        training.wait()
    _until(lambda: _has_ended(page))


def _has_ended(process: int) -> bool:
    """Also if nobody has asked how."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _children(parent: int, word: str) -> list[int]:
    """Processes that a process has started, with a word in their command."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(c) for c in children if word in Path(f"/proc/{c}/cmdline").read_text().split("\0")]


def _answer(address: str) -> bytes | None:
    try:
        return urllib.request.urlopen(address, timeout=5).read(2000)
    except OSError:
        return None


def _until(happens):
    import time

    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if result := happens():
            return result
        time.sleep(0.1)
    raise AssertionError("waited in vain")


def test_what_plays_lets_everybody_else_go_first():
    code = (
        "import os, threading; from slipstream.cli.watch import _step_back; stop = threading.Event()\n"
        "other = threading.Thread(target=stop.wait); other.start(); _step_back()\n"
        "print(os.getpriority(os.PRIO_PROCESS, 0), os.getpriority(os.PRIO_PROCESS, other.native_id)); stop.set()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["19", "19"]
