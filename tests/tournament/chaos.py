"""Tournaments on a Ray cluster of several emulated nodes, with something killed every moment."""

import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import psutil
import quick_driver
from postgres import Postgres, postgres

from slipstream.runs.directory import RunError
from slipstream.tournament import tournament
from slipstream.tournament.directory import TournamentDirectory, at_home
from slipstream.tournament.leaderboard import Leaderboard
from slipstream.tournament.plan import Plan
from slipstream.tournament.storage import Storage
from slipstream.tournament.view import View
from slipstream.training.choices import default_config

HERE = Path(__file__).parent
TAG = "SLIPSTREAM_TEST_CHAOS"
"""In the environment of all that is started here: by it orphans are found."""


STORE = 80 * 2**20


def patiently(start):
    """Ray allows a node half a minute to start, and a busy machine may take longer."""
    for _ in range(3):
        with contextlib.suppress(Exception):
            return start()
    return start()


class Chaos:
    """A tournament, and who kills its parts."""

    def __init__(self, folder: Path, pods: int, nodes: int, seed: int = 0, server: Postgres | None = None):
        self.folder, self.nodes, self.server = folder, nodes, server
        self.rng = random.Random(seed)
        self.killed: Counter[str] = Counter()
        self.acknowledged_file = folder / "acknowledged.txt"
        self.tag = f"{os.getpid()}-{folder.name}"
        os.environ[quick_driver.ACKNOWLEDGED] = str(self.acknowledged_file)
        os.environ[TAG] = self.tag
        paths = [str(HERE), *(p for p in sys.path if p)]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        tournament.DRIVER = (sys.executable, str(HERE / "quick_driver.py"))
        plan = Plan(default_config("cartpole"), pods=pods, minutes=600.0, quantum_seconds=None, quantum_steps=10,
                    episodes=2, keep=5, patience=60.0, cpus_per_pod=1.0)  # fmt: skip
        home = folder / "tournament"
        database = {} if server is None else {"database": server.url}
        self.plan = Plan(**{**vars(plan), **at_home(plan, home), **database})
        self.directory = TournamentDirectory.create(home, self.plan)
        self.board = Leaderboard(self.plan.database, create=True)
        self.board.change(pods=pods)
        self.cluster = None
        self._driving: threading.Thread | None = None
        self.error: Exception | None = None
        self.finished = False

    # Ray, and the tournament on it.

    def start_cluster(self) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False}
        self.cluster = patiently(lambda: Cluster(initialize_head=True, head_node_args=head))
        for _ in range(self.nodes):
            self.add_node()

    def add_node(self) -> None:
        patiently(lambda: self.cluster.add_node(num_cpus=2, object_store_memory=STORE, wait=False))

    def go_on(self) -> None:
        """Drive it, in a thread, until it is over or the head is gone for good."""
        tournament.PAUSE = 0.0

        def drive() -> None:
            try:
                with View(self.plan, self.board, quiet=True) as view:
                    self.finished = tournament.drive(self.directory, self.board, self.cluster.address, view)
            except (RunError, ValueError) as error:
                self.error = error

        self.error = None
        self._driving = threading.Thread(target=drive)
        self._driving.start()

    @property
    def driving(self) -> bool:
        return self._driving is not None and self._driving.is_alive()

    def wait_for(self, submissions: int, seconds: float = 120.0) -> None:
        """Until there are so many more."""
        before, end = self.count(), time.monotonic() + seconds
        while self.count() < before + submissions:
            if time.monotonic() > end or not self.driving:
                log = (self.directory.path / "log.txt").read_text()[-3000:]
                raise TimeoutError(f"No progress ({self.error}). {log}\n{self.directory.output.read_text()[-2000:]}")
            time.sleep(0.05)

    def count(self) -> int:
        with contextlib.suppress(RunError):
            return self.board.count()
        return -1

    def finish(self) -> None:
        self.board.change(stopping=True)
        self._driving.join(180)
        assert not self.driving, "it does not end"
        if self.cluster is not None:
            self.cluster.shutdown()

    # Killing.

    def processes(self, *words: str) -> list[psutil.Process]:
        """Those that were started here and have one of these words in what they were started with."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                line = " ".join(process.cmdline())
                if any(word in line for word in words) and process.environ().get(TAG) == self.tag:
                    found.append(process)
        return [p for p in found if p.pid != os.getpid()]

    def kill(self, what: str) -> None:
        """SIGKILL something."""
        getattr(self, f"_kill_{what}")()
        self.killed[what] += 1

    def _kill_pod(self) -> None:
        pods = self.processes("ray::QuickPod", "ray::PodProcess")
        while not pods:
            time.sleep(0.1)
            pods = self.processes("ray::QuickPod", "ray::PodProcess")
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.rng.choice(pods).pid, signal.SIGKILL)

    def _kill_node(self) -> None:
        nodes = list(self.cluster.worker_nodes)
        self.cluster.remove_node(self.rng.choice(nodes), allow_graceful=False)
        self.add_node()

    def _kill_driver(self) -> None:
        drivers = self.processes("quick_driver.py")
        if drivers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.rng.choice(drivers).pid, signal.SIGKILL)

    def _kill_leaderboard(self) -> None:
        assert self.server is not None
        self.server.kill()
        self.server.start()

    def _kill_head(self) -> None:
        """The head and, with it, the whole cluster; a new one comes, and the tournament goes on there."""
        for process in self.processes("gcs_server"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        before, tournament.RESTARTS = tournament.RESTARTS, 0  # it will not come back under the same address
        self._driving.join(300)
        tournament.RESTARTS = before
        assert not self.driving, "nobody has noticed that the head is gone"
        self.cluster.shutdown()
        self.start_cluster()
        self.go_on()

    # What must be true in the end.

    def check(self) -> dict[str, int]:
        """Raise an error unless nothing was lost and nothing is left over."""
        acknowledged = set(self.acknowledged_file.read_text().split())
        history = self.board.history()
        ids = [entry.id for entry in history]
        lost = acknowledged - set(ids)
        assert not lost, f"acknowledged, and lost: {sorted(lost)}"
        assert len(ids) == len(set(ids)), "an id is there twice"
        assert [e.number for e in history] == sorted(e.number for e in history)
        ranked = self.board.top("cart", len(ids) + 1)
        keys = [(-e.score, e.number) for e in ranked]
        assert keys == sorted(keys) and len(ranked) == len(ids), "ranks do not follow scores"
        kept = self.board.kept()
        storage = Storage(self.plan.storage)
        for entry in kept:
            storage.verify(entry.weights, entry.checksum)
        best = {e.id for e in ranked[: self.plan.keep]}
        assert {e.id for e in kept} == best, "the best have no weights"
        left = self.wait_for_nobody()
        assert not left, f"still there: {[p.cmdline()[:3] for p in left]}"
        storage.sweep([e.weights for e in kept])
        assert {p.name for p in Path(self.plan.storage).iterdir()} == best
        return {"acknowledged": len(acknowledged), "submissions": len(ids), "kills": self.killed.total()}

    def wait_for_nobody(self, seconds: float = 60.0) -> list[psutil.Process]:
        """Processes of ours that are still there after a while."""
        end = time.monotonic() + seconds
        while (left := self.processes("")) and time.monotonic() < end:
            time.sleep(0.2)
        own = {p.pid for p in psutil.Process().children(recursive=True) if "postgres" in p.name()}
        return [p for p in left if p.pid not in own]


def soak(folder: Path, kills: int, pods: int, nodes: int, weights: dict[str, float], seed: int = 0, say=print) -> dict:
    """So many random kills, one after the other, with submissions in between."""
    with postgres() if weights.get("leaderboard") else contextlib.nullcontext() as server:
        chaos = Chaos(folder, pods, nodes, seed, server)
        chaos.start_cluster()
        chaos.go_on()
        chaos.wait_for(pods)
        for number in range(1, kills + 1):
            what = chaos.rng.choices(list(weights), list(weights.values()))[0]
            chaos.kill(what)
            chaos.wait_for(1, seconds=300.0)
            if number % 10 == 0:
                say(f"{number} kills ({dict(chaos.killed)}), {chaos.count()} submissions")
        chaos.wait_for(pods)
        chaos.finish()
        result = {**chaos.check(), "killed": dict(chaos.killed)}
        chaos.board.close()
        return result
