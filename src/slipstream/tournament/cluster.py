"""Ray, embedded or a cluster: the only module that imports it."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from slipstream.capacity import usable_cores
from slipstream.tournament.plan import Plan
from slipstream.tournament.pod import Pod, Report, from_plain

OBJECT_STORE = 100 * 2**20
"""Bytes for what pods and the tournament tell each other: jobs and reports, no weights."""

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_DEDUP_LOGS": "0"}


class NotEnough(ValueError):
    """No machine of the cluster has what a pod needs."""


class PodProcess:
    """A pod as an actor of Ray: a process that trains one agent after the other."""

    def __init__(self, name: str, plan: Mapping[str, Any], threads: int):
        os.environ["NPROC"] = str(threads)  # XLA asks for it once, when it starts
        from slipstream.arrays import set_threads

        set_threads(threads)
        self._pod = Pod(name, Plan.of(plan))

    def run(self, job: Mapping[str, Any]) -> Report:
        return self._pod.run(from_plain(job))

    def process(self) -> tuple[str, int]:
        """On which machine, and its number there."""
        return socket.gethostname(), os.getpid()


@dataclass(frozen=True)
class Ended:
    """A call of a pod that is over."""

    report: Report | None = None
    error: str | None = None
    """What went wrong with the job, in one line."""
    dead: bool = False
    """The pod is no more."""


class Cluster:
    """Machines to run pods on."""

    def __init__(self, plan: Plan, address: str | None = None):
        """Args:
        plan: what a pod needs.
        address: of a cluster that is there; None: one on this machine, for us alone.
        """
        os.environ.update({name: os.environ.get(name, value) for name, value in QUIET.items()})
        import ray

        self._ray, self._plan = ray, plan
        if address is not None and not _answers(address):
            raise ValueError(f"No Ray cluster answers at {address}.")
        how: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address is None:
            how |= {"include_dashboard": False, "object_store_memory": OBJECT_STORE, "num_cpus": usable_cores()}
        try:
            ray.init(address=address or "local", namespace="slipstream", **how)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise ValueError(f"Ray cannot be reached at {address or 'this machine'}: {_line(error)}.") from error
        self._head = ray.get_runtime_context().gcs_address
        self._known_as = self._identity()
        try:
            self._check_resources()
        except BaseException:
            ray.shutdown()
            raise

    def _check_resources(self) -> None:
        plan = self._plan
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        fits = [n for n in nodes if n.get("CPU", 0) >= plan.cpus_per_pod and n.get("GPU", 0) >= plan.gpus_per_pod]
        if not fits:
            most = {kind: max((node.get(kind, 0) for node in nodes), default=0) for kind in ("CPU", "GPU")}
            raise NotEnough(
                f"A pod needs {plan.cpus_per_pod:g} CPUs and {plan.gpus_per_pod:g} GPUs, and no machine has more than "
                f"{most['CPU']:g} and {most['GPU']:g}: give --cpus-per-pod and --gpus-per-pod."
            )
        hosts = {node["NodeManagerAddress"] for node in self._ray.nodes() if node["Alive"]}
        if len(hosts) > 1 and plan.database.startswith("sqlite"):
            raise ValueError(
                f"The cluster has {len(hosts)} machines, and SQLite is a file on one: give --database "
                "postgresql+psycopg://user:password@host/name."
            )

    def start_pod(self, name: str) -> Any:
        """A pod that starts as soon as there is room for it."""
        plan = self._plan
        actor = self._ray.remote(PodProcess).options(
            num_cpus=plan.cpus_per_pod,
            num_gpus=plan.gpus_per_pod,
            max_restarts=0,  # one that was restarted would have lost its epoch
            scheduling_strategy="SPREAD",
        )
        return actor.remote(name, plan.to_json(), max(1, round(plan.cpus_per_pod)))

    def ask_process(self, pod: Any) -> Any:
        return pod.process.remote()

    def run(self, pod: Any, job: Mapping[str, Any]) -> Any:
        return pod.run.remote(dict(job))

    def kill(self, pod: Any) -> None:
        self._ray.kill(pod)

    def over(self, calls: list[Any], seconds: float) -> list[Any]:
        """Those calls that are over, after at most so many seconds."""
        if not calls:
            return []
        done, _ = self._ray.wait(calls, num_returns=len(calls), timeout=0)
        return done or self._ray.wait(calls, num_returns=1, timeout=seconds)[0]

    def result(self, call: Any, read: Callable[[Any], Ended]) -> Ended:
        """What a call that is over has led to."""
        try:
            return read(self._ray.get(call))
        except self._ray.exceptions.RayTaskError as error:
            return Ended(error=_line(error.cause or error))
        except self._ray.exceptions.RayError as error:
            return Ended(error=_line(error), dead=True)

    def head_answers(self) -> bool:
        """Whether the head of the cluster is there: without it, calls of Ray would wait for it in vain.

        Another one that has come to the same address meanwhile knows nothing of us.
        """
        return _answers(self._head) and self._identity() == self._known_as

    def _identity(self) -> str | None:
        """The number that every head draws for its cluster; None if it does not say."""
        from ray._raylet import GcsClient  # pyright: ignore[reportAttributeAccessIssue] (compiled, without types)

        try:
            return GcsClient(address=self._head).cluster_id.hex()
        except (self._ray.exceptions.RayError, RuntimeError, OSError):
            return None

    def close(self) -> None:
        self._ray.shutdown()


def _answers(address: str) -> bool:
    """Whether there is somebody at `host:port`. Ray itself would wait for a minute; what `auto` means, it knows."""
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        return address == "auto"
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=5.0):
            return True
    except OSError:
        return False


def _line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")
