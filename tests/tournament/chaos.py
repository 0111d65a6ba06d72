"""A tournament on a Ray cluster of several emulated nodes, whose parts are killed, and mended as an operator would."""

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import quick_driver
from postgres import Postgres

from slipstream.runs.directory import RunError
from slipstream.tournament import tournament
from slipstream.tournament.directory import TournamentDirectory, at_home
from slipstream.tournament.leaderboard import Leaderboard, insist
from slipstream.tournament.plan import Plan
from slipstream.tournament.storage import Storage, StorageError
from slipstream.tournament.view import View
from slipstream.training.choices import default_config

HERE = Path(__file__).parent
TAG = "SLIPSTREAM_TEST_CHAOS"
"""In the environment of all that is started here: by it orphans are found."""

STORE = 80 * 2**20

IMPATIENT = {
    "RAY_health_check_initial_delay_ms": "2000",
    "RAY_health_check_period_ms": "1000",  # 5 that fail: a lost node is noticed after 5 s instead of 15
    "RAY_gcs_rpc_server_reconnect_timeout_s": "15",
    "RAY_agent_register_timeout_ms": "120000",  # on a busy machine its helpers take their time to start
    "RAY_worker_niceness": "0",  # as nice as we are, not more
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_enable_metrics_collection": "0",
}
"""Ray's own settings, so that it notices sooner what is gone, and starts nothing that is not needed."""


class Chaos:
    """A tournament, who kills its parts, and who mends them."""

    def __init__(self, folder: Path, pods: int, nodes: int, seed: int = 0, server: Postgres | None = None):
        self.folder, self.nodes, self.server = folder, nodes, server
        self.rng = random.Random(seed)
        self.killed: Counter[str] = Counter()
        self.resumed = 0
        """How often the tournament had given up, and was resumed as it asks for."""
        self.acknowledged_file = folder / "acknowledged.jsonl"
        self.acknowledged_file.touch()
        self.tag = f"{os.getpid()}-{folder.name}"
        os.environ |= {quick_driver.ACKNOWLEDGED: str(self.acknowledged_file), TAG: self.tag, **IMPATIENT}
        os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), *(p for p in sys.path if p)])
        tournament.DRIVER = (sys.executable, str(HERE / "quick_driver.py"))
        tournament.PAUSE = 1.0
        plan = Plan(default_config("cartpole"), pods=pods, minutes=600.0, quantum_seconds=None, quantum_steps=10,
                    episodes=2, keep=5, patience=60.0, cpus_per_pod=1.0)  # fmt: skip
        home = folder / "tournament"
        database = {} if server is None else {"database": server.url}
        self.plan = Plan(**{**vars(plan), **at_home(plan, home), **database})
        self.directory = TournamentDirectory.create(home, self.plan)
        self.board = Leaderboard(self.plan.database, create=True)
        self.board.change(pods=pods)
        self.storage = Storage(self.plan.storage)
        self.cluster = None
        self._port = free_port()
        self._repairs: dict[str, threading.Thread] = {}
        self._driving: threading.Thread | None = None
        self.error: Exception | None = None
        self.finished = False

    # Ray, and the tournament on it.

    def start_cluster(self) -> None:
        """A head, always at the same address; nodes join as they are mended."""
        from ray.cluster_utils import Cluster

        # Nodes are started by threads, so that Ray's own way of ending them with whoever has started them is no good.
        head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False, "include_log_monitor": False}
        self.cluster = Cluster(True, head_node_args={**head, **agent_ports(), "gcs_server_port": self._port},
                               shutdown_at_exit=False)  # fmt: skip

    def go_on(self) -> None:
        """Drive it, in a thread, until it is over or gives up."""

        def drive() -> None:
            try:
                with View(self.plan, self.board, quiet=True) as view:
                    self.finished = tournament.drive(self.directory, self.board, self.cluster.address, view)
            except (RunError, ValueError) as error:
                self.error = error

        self.error = None
        self._driving = threading.Thread(target=drive, daemon=True)
        self._driving.start()

    @property
    def driving(self) -> bool:
        return self._driving is not None and self._driving.is_alive()

    def acknowledged(self) -> int:
        """How many submissions have been, so far."""
        return self.acknowledged_file.read_bytes().count(b"\n")

    def wait_for(self, submissions: int, seconds: float = 120.0) -> None:
        """Until so many more are acknowledged."""
        before, end = self.acknowledged(), time.monotonic() + seconds
        while self.acknowledged() < before + submissions:
            if time.monotonic() > end:
                log = (self.directory.path / "log.txt").read_text()[-3000:]
                raise TimeoutError(f"No progress ({self.error}). {log}\n{self.directory.output.read_text()[-2000:]}")
            time.sleep(0.05)

    def finish(self) -> None:
        """Let the tournament come to its end, and shut the cluster down."""
        insist(lambda: self.board.change(stopping=True), 60.0)
        self._driving.join(180)
        assert not self.driving and self.finished, f"it does not end: {self.error}"
        self.cluster.shutdown()

    def end_all(self) -> None:
        """SIGKILL to whatever is left of us, after an error."""
        for process in self.processes(""):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    # Mending.

    @contextlib.contextmanager
    def mended(self) -> Iterator[None]:
        """Inside, what is gone is replaced, each in a thread of its own, while killing goes on."""
        over = threading.Event()

        def mend() -> None:
            while not over.wait(0.2):
                self._mend()

        thread = threading.Thread(target=mend, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            for repair in self._repairs.values():
                repair.join()

    def _mend(self) -> None:
        if self.server is not None and not self.server.running:
            self._repair("leaderboard", self.server.start)
        if not is_alive(self.cluster.head_node, "gcs_server") or not is_alive(self.cluster.head_node, "raylet"):
            self._repair("head", self._replace_head)
        else:
            for node in list(self.cluster.worker_nodes):
                if not is_alive(node, "raylet"):
                    self.cluster.worker_nodes.discard(node)
            if len(self.cluster.worker_nodes) < self.nodes:
                self._repair(f"nodes of {id(self.cluster)}", self._add_node)
        if not self.driving and not self.finished:
            self.resumed += self._driving is not None
            self.go_on()

    def _repair(self, what: str, work: Callable[[], object]) -> None:
        """In the background; what fails, because the next kill came meanwhile, is tried again."""
        if what in self._repairs and self._repairs[what].is_alive():
            return

        def repair() -> None:
            with contextlib.suppress(Exception):
                work()

        self._repairs[what] = threading.Thread(target=repair, daemon=True)
        self._repairs[what].start()

    def _add_node(self) -> None:
        cluster = self.cluster
        try:
            cluster.add_node(num_cpus=2, object_store_memory=STORE, wait=False, **agent_ports())
        except Exception:  # it was killed, or took too long
            known = {p.pid for node in cluster.list_all_nodes() for p in node_processes(node)}
            for process in self.processes("raylet/raylet"):
                if process.pid not in known:
                    send_kill(process)
            raise

    def _replace_head(self) -> None:
        """Nodes of a head that is gone are started anew; pods on them have to notice by themselves."""
        old = self.cluster
        for process in self.processes("gcs/gcs_server", "raylet/raylet", "ray/dashboard", "ray/autoscaler"):
            send_kill(process)
        self.start_cluster()
        shutil.rmtree(old.head_node.get_session_dir_path(), ignore_errors=True)

    # Killing.

    def processes(self, *words: str) -> list[psutil.Process]:
        """Those that were started here and have one of these words in what they were started with."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                line = " ".join(process.cmdline())
                if line and any(word in line for word in words) and process.environ().get(TAG) == self.tag:
                    found.append(process)
        return [p for p in found if p.pid != os.getpid()]

    def kill(self, what: str) -> bool:
        """SIGKILL something; False if there is no such thing alive at the moment."""
        done = getattr(self, f"_kill_{what}")()
        self.killed[what] += done
        return done

    def _kill_pod(self) -> bool:
        """One at work, or one that is starting."""
        # A node's raylet, which starts them, is told by the same words how.
        found = self.processes("ray::QuickPod", "ray::IDLE", "default_worker.py")
        return self._kill_one([process for process in found if not is_raylet(process)])

    def _kill_driver(self) -> bool:
        return self._kill_one(self.processes("quick_driver.py"))

    def _kill_one(self, processes: list[psutil.Process]) -> bool:
        return bool(processes) and send_kill(self.rng.choice(processes))

    def _kill_node(self) -> bool:
        """One that has joined: all of its processes at once; or its raylet alone, so that its pods are orphans."""
        nodes = [node for node in self.cluster.worker_nodes if is_alive(node, "raylet")]
        return bool(nodes) and self._kill_machine(self.rng.choice(nodes), with_pods=self.rng.random() < 0.5)

    def _kill_head(self) -> bool:
        head = self.cluster.head_node
        return is_alive(head, "gcs_server") and self._kill_machine(head, with_pods=True)

    def _kill_machine(self, node, with_pods: bool) -> bool:
        processes = node_processes(node)
        if with_pods:
            processes += [child for process in processes for child in children(process)]
        return any([send_kill(process) for process in processes])

    def _kill_leaderboard(self) -> bool:
        if self.server is None or not self.server.running:
            return False
        with contextlib.suppress(psutil.NoSuchProcess):
            self.server.kill()
        return True

    # What must be true.

    def damaged(self) -> list[str]:
        """Agents that the leaderboard says are kept, and whose weights are not what was submitted."""
        found = []
        for entry in self.board.kept():
            try:
                self.storage.verify(entry.weights, entry.checksum)
            except (StorageError, RunError) as error:
                now = self.board.entry(entry.id)
                if now is None or now.weights is not None:  # otherwise it has been let go meanwhile
                    found.append(f"{entry.id}: {error}")
        return found

    def check(self) -> dict[str, int]:
        """Raise an error unless nothing was lost and nothing is left over."""
        acknowledged = [json.loads(line) for line in self.acknowledged_file.read_text().splitlines()]
        history = self.board.history()
        rows = {entry.id: entry for entry in history}
        lost = [row for row in acknowledged if row != {name: getattr(rows.get(row["id"]), name, None) for name in row}]
        assert not lost, f"acknowledged, and lost: {lost}"
        assert len(history) == len(rows), "an id is there twice"
        assert len({row["id"] for row in acknowledged}) == len(acknowledged), "an id was acknowledged twice"
        ranked = self.board.top("cart", len(history) + 1)
        keys = [(-e.score, e.number) for e in ranked]
        assert keys == sorted(keys) and len(ranked) == len(history), "ranks do not follow scores"
        assert not (found := self.damaged()), f"damaged: {found}"
        kept = self.board.kept()
        best = {e.id for e in ranked[: self.plan.keep]}
        assert {e.id for e in kept} == best, "the best have no weights"
        left = self.wait_for_nobody()
        assert not left, f"still there: {[p.cmdline()[:3] for p in left]}"
        self.storage.sweep([e.weights for e in kept])
        assert {p.name for p in Path(self.plan.storage).iterdir()} == best
        return {"acknowledged": len(acknowledged), "submissions": len(history), "kills": self.killed.total()}

    def wait_for_nobody(self, seconds: float = 60.0) -> list[psutil.Process]:
        """Processes of ours that are still there after a while."""
        end = time.monotonic() + seconds
        while (left := self.processes("")) and time.monotonic() < end:
            time.sleep(0.2)
        own = {p.pid for p in psutil.Process().children(recursive=True) if "postgres" in p.name()}
        return [p for p in left if p.pid not in own]


def agent_ports() -> dict[str, int]:
    """Of a node's helpers. A raylet that is not told them dies if one takes 15 s to start, as on a busy machine."""
    names = ("metrics_agent_port", "metrics_export_port", "runtime_env_agent_port", "dashboard_agent_listen_port")
    return {name: free_port() for name in names}


def free_port() -> int:
    """One that no outgoing connection is given, so that a head can come back to it."""
    while True:
        port = random.SystemRandom().randrange(20_000, 30_000)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port


def node_processes(node) -> list[psutil.Process]:
    """What Ray has started for a node, without what those have started."""
    found = []
    for info in [info for infos in node.all_processes.values() for info in infos]:
        with contextlib.suppress(psutil.NoSuchProcess):
            if info.process.poll() is None:
                found.append(psutil.Process(info.process.pid))
    return found


def children(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.children(recursive=True)
    return []


def is_alive(node, kind: str) -> bool:
    return all(info.process.poll() is None for info in node.all_processes.get(kind, []))


def is_raylet(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.name() == "raylet"
    return False


def send_kill(process: psutil.Process) -> bool:
    """SIGKILL; whether there was somebody to be killed."""
    with contextlib.suppress(psutil.NoSuchProcess):
        if process.status() != psutil.STATUS_ZOMBIE:
            process.send_signal(signal.SIGKILL)
            return True
    return False
