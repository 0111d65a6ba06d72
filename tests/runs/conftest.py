import pytest

from slipstream.runs.directory import RunDirectory


@pytest.fixture
def run(tmp_path):
    """A new run, claimed."""
    directory = RunDirectory.create(tmp_path / "run", {"env": "test"})
    yield directory
    directory.release()
