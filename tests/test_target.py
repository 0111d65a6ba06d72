"""What kernels are compiled for."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

SHOW = """
import json
from dataclasses import asdict
from slipstream.arrays import array_types
from slipstream.target import _features, choose_target
two = list(array_types("llvm").Int([1, 2]) * 2)
print(json.dumps(asdict(choose_target()) | {"features": (_features() or b"").decode(), "two": two}))
"""


def chosen(cache, **environment) -> dict:
    surroundings = {**os.environ, "XDG_CACHE_HOME": str(cache), **environment}
    done = subprocess.run([sys.executable, "-c", SHOW], env=surroundings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def probed(tmp_path_factory):
    cache = tmp_path_factory.mktemp("cache")
    return cache, chosen(cache)


def test_the_faster_way_to_gather_is_found_and_kept_for_the_machine(probed):
    cache, first = probed
    if first["chosen_by"] == "default":  # a processor without AVX-512 has nothing to choose
        assert first["nanoseconds"] == {}
        return
    took = first["nanoseconds"]
    assert first["chosen_by"] == "probe" and took.keys() == {"hardware", "loads"} and min(took.values()) > 0
    assert (first["gather"] == "loads") == (took["hardware"] > 1.3 * took["loads"])
    assert ("+prefer-no-gather" in first["features"]) == (first["gather"] == "loads")
    assert '"stackrealign"="true' in first["features"]
    assert chosen(cache) == first  # to the last digit: it was not measured again


def test_what_was_kept_decides(probed, tmp_path):
    cache, first = probed
    if first["chosen_by"] == "default":
        return
    known = json.loads((cache / "slipstream" / "processor.json").read_text())
    other = "hardware" if first["gather"] == "loads" else "loads"
    (tmp_path / "slipstream").mkdir()
    changed = {machine: {**found, "gather": other} for machine, found in known.items()}
    (tmp_path / "slipstream" / "processor.json").write_text(json.dumps(changed))
    assert chosen(tmp_path)["gather"] == other


@pytest.mark.parametrize("gather", ["hardware", "loads"])
def test_the_user_decides_without_a_probe(gather, tmp_path):
    found = chosen(tmp_path, SLIPSTREAM_GATHER=gather)
    assert not (tmp_path / "slipstream" / "processor.json").exists()
    assert found["chosen_by"] == "default" or (found["gather"], found["chosen_by"]) == (gather, "user")
    assert found["two"] == [2, 4]


def test_a_damaged_file_is_probed_over(probed, tmp_path):
    (tmp_path / "slipstream").mkdir()
    (tmp_path / "slipstream" / "processor.json").write_text("{")
    assert chosen(tmp_path)["chosen_by"] == probed[1]["chosen_by"]


def test_a_choice_that_there_is_not_is_refused(tmp_path):
    surroundings = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "SLIPSTREAM_GATHER": "magic"}
    code = "from slipstream.arrays import array_types; array_types('llvm')"
    done = subprocess.run([sys.executable, "-c", code], env=surroundings, capture_output=True, text=True)
    assert "SLIPSTREAM_GATHER must be hardware or loads, got 'magic'" in done.stderr
