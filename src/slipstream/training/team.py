"""The processes of one run: how they find each other, what they tell each other, and what happens when one is lost.

Process 0 leads. Every other one has a line to it, beside JAX's own connections over which gradients are averaged. What
goes over a line is a small message with arrays (no pickles); both ends say now and then that they are alive. A process
that waits for another one in the middle of a computation cannot be woken up: when somebody is lost, all others end.
"""

from __future__ import annotations

import atexit
import contextlib
import hmac
import json
import os
import queue
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from slipstream import __version__

COORDINATOR, PROCESSES, PROCESS = "SLIPSTREAM_COORDINATOR", "SLIPSTREAM_PROCESSES", "SLIPSTREAM_PROCESS"
SECRET = "SLIPSTREAM_SECRET"
"""Of the environment: where process 0 is (`host:port`), how many processes there are, which of them this is, and, if
wanted, a word that all of them must know."""

GATHERING = 300.0
"""Seconds in which all processes must have come."""

HEARTBEAT, PATIENCE = 5.0, 60.0
"""Seconds between two signs of life, and without any until a process counts as lost."""

LOST = 4
"""Exit code of a process that ends because another one was lost."""


@dataclass(frozen=True)
class Seat:
    """Which one of the processes of a run this is, and where they meet."""

    host: str
    port: int
    """JAX's; the lines come together at the next one."""
    count: int
    number: int
    secret: str = ""

    @staticmethod
    def from_environment() -> Seat | None:
        """What the environment says; None if it says nothing, or that there is a single process."""
        given = {name: os.environ[name] for name in (COORDINATOR, PROCESSES, PROCESS) if os.environ.get(name)}
        if not given:
            return None
        if missing := [name for name in (COORDINATOR, PROCESSES, PROCESS) if name not in given]:
            raise ValueError(f"{', '.join(given)} is set, but not {' and '.join(missing)}: set all three, or none.")
        host, _, port = given[COORDINATOR].rpartition(":")
        count, number = (_whole(name, given[name]) for name in (PROCESSES, PROCESS))
        if not host or not port.isdecimal() or not 0 < int(port) < 65535:
            raise ValueError(f"{COORDINATOR} must look like host:port, got {given[COORDINATOR]!r}.")
        if not number < count:
            raise ValueError(f"{PROCESS} must be within 0 .. {count - 1} with {PROCESSES}={count}, got {number}.")
        return None if count == 1 else Seat(host.strip("[]"), int(port), count, number, os.environ.get(SECRET, ""))

    def as_environment(self) -> dict[str, str]:
        values = {COORDINATOR: f"{self.host}:{self.port}", PROCESSES: str(self.count), PROCESS: str(self.number)}
        return values | {SECRET: self.secret}

    @property
    def local(self) -> bool:
        """Whether all processes are on this machine."""
        return self.host in ("localhost", "127.0.0.1", "::1")


def _whole(name: str, text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{name} must be a whole number, got {text!r}.")
    return int(text)


class Message(NamedTuple):
    content: dict[str, Any]
    arrays: dict[str, np.ndarray]


class Line:
    """A connection to one other process."""

    def __init__(self, connection: socket.socket):
        connection.settimeout(PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection
        self._sending = threading.Lock()

    def send(self, content: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None) -> None:
        contiguous = {name: np.ascontiguousarray(a).reshape(a.shape) for name, a in (arrays or {}).items()}
        kinds = [(name, a.dtype.str, a.shape) for name, a in contiguous.items()]
        header = json.dumps({"content": dict(content), "arrays": kinds}).encode()
        with self._sending:
            self._connection.sendall(struct.pack("!Q", len(header)) + header)
            for array in contiguous.values():
                self._connection.sendall(array.reshape(-1).view(np.uint8).data)

    def receive(self) -> Message:
        """The next message; an OSError if nobody is there any more."""
        (length,) = struct.unpack("!Q", self._exactly(8))
        header = json.loads(bytes(self._exactly(length)))
        arrays = {}
        for name, kind, shape in header["arrays"]:
            dtype = np.dtype(kind)
            data = self._exactly(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
            arrays[name] = np.frombuffer(data, dtype).reshape(shape)
        return Message(header["content"], arrays)

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            got = self._connection.recv_into(view)
            if not got:
                raise ConnectionError("its connection was closed")
            view = view[got:]
        return data

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


class Team:
    """All processes of a run, seen from one of them."""

    def __init__(self, seat: Seat, lines: Mapping[int, Line], names: Mapping[int, str]):
        self.seat, self._lines, self._names = seat, lines, names
        self.on_lost: Callable[[str], None] = lambda text: print(f"slipstream train: {text}", file=sys.stderr)
        """Is told in one line who was lost, before this process ends."""
        self.on_stop: Callable[[], None] = lambda: None
        """Is called when another process was asked to stop the run."""
        self._heard: dict[int, queue.SimpleQueue[Message]] = {number: queue.SimpleQueue() for number in lines}
        self._over = threading.Event()
        self._ending = threading.Lock()
        for number in lines:
            threading.Thread(target=self._listen, args=(number,), daemon=True).start()
        threading.Thread(target=self._show_life, daemon=True).start()

    # Talking.

    def tell(self, content: Mapping[str, Any], arrays: Mapping[int, Mapping[str, np.ndarray]] | None = None) -> None:
        """Say something to everybody at the other end of a line, with arrays for each."""
        for number, line in self._lines.items():
            try:
                line.send(content, (arrays or {}).get(number))
            except OSError as error:
                self._end_without(number, str(error))

    def hear(self, number: int = 0) -> Message:
        """The next message of another process."""
        return self._heard[number].get()

    def gather(self) -> list[Message]:
        """A message of each of the others, in their order."""
        return [self.hear(number) for number in sorted(self._lines)]

    def dismiss(self, content: Mapping[str, Any]) -> None:
        """Say the last thing: from now on nobody minds who ends."""
        self._over.set()
        for line in self._lines.values():
            with contextlib.suppress(OSError):
                line.send({**content, "last": True})

    def close(self) -> None:
        self._over.set()
        for line in self._lines.values():
            line.close()

    # Who is there.

    def _listen(self, number: int) -> None:
        try:
            while not self._over.is_set():
                message = self._lines[number].receive()
                match message.content.get("sign"):
                    case "alive":
                        pass
                    case "stop":
                        self.on_stop()
                    case "failed":
                        self._end_without(number, message.content["why"], "failed")
                    case "lost":
                        self._end(message.content["text"])
                    case _:
                        if message.content.get("last"):
                            self._over.set()
                        self._heard[number].put(message)
        except TimeoutError:
            self._end_without(number, f"nothing was heard of it for {PATIENCE:.0f} s")
        except OSError as error:
            self._end_without(number, error.strerror or str(error))

    def _show_life(self) -> None:
        while not self._over.wait(HEARTBEAT):
            for line in self._lines.values():
                with contextlib.suppress(OSError):  # whoever listens notices
                    line.send({"sign": "alive"})

    def _end_without(self, number: int, why: str, how: str = "was lost") -> None:
        self._end(f"Process {number} of {self.seat.count} ({self._names[number]}) {how}: {why.rstrip('.')}.")

    def _end(self, text: str) -> None:
        """End this process, which may be waiting for one that is no more."""
        with self._ending:
            if self._over.is_set():
                return
            for line in self._lines.values():
                with contextlib.suppress(OSError):
                    line.send({"sign": "lost", "text": text})
            self.on_lost(text)
            os._exit(LOST)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Inside, all processes are one for JAX, and an error of this one ends the run of all. (An error that follows
        from somebody's loss is not told: who was lost is.)"""
        try:
            _join_jax(self.seat)
            yield
        except BaseException as error:
            stopped = isinstance(error, KeyboardInterrupt)
            if not stopped:
                # JAX notices too when a process is gone, and does not know who: whoever listens may be about to.
                time.sleep(1.0)
            why = "it was stopped" if stopped else " ".join(f"{type(error).__name__}: {error}".split())
            self.dismiss({"sign": "failed", "why": why})
            self.close()
            atexit.register(_leave, 130 if stopped else 1)
            raise
        else:
            self.close()
            jax.distributed.shutdown()


def _leave(code: int) -> None:
    """End without JAX's farewell, for which it would wait until it gives up on those who are gone already."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


_assembled = False


def assemble(seat: Seat) -> Team:
    """Wait for all processes of a run. While they are `working`, they are one for JAX too."""
    global _assembled
    if _assembled:
        raise RuntimeError(
            "This process trains together with others, and can do so only once. In a file that defines its own world, "
            'train under `if __name__ == "__main__":`.'
        )
    me = {"secret": seat.secret, "version": __version__, "name": f"pid {os.getpid()} on {socket.gethostname()}"}
    team = _lead(seat) if seat.number == 0 else _join(seat, me)
    _assembled = True
    return team


def _lead(seat: Seat) -> Team:
    lines: dict[int, Line] = {}
    names: dict[int, str] = {}
    until = time.monotonic() + GATHERING
    address = (seat.host if seat.local else "", seat.port + 1)
    try:
        server = socket.create_server(address, family=socket.AF_INET6 if ":" in seat.host else socket.AF_INET)
    except OSError as error:
        raise ValueError(
            f"Process 0 cannot listen at port {seat.port + 1} of {seat.host}: {error.strerror}."
        ) from error
    with server:
        while len(lines) < seat.count - 1:
            server.settimeout(max(until - time.monotonic(), 0.01))
            try:
                connection, _ = server.accept()
            except TimeoutError:
                missing = ", ".join(str(n) for n in range(1, seat.count) if n not in lines)
                raise ValueError(
                    f"Of {seat.count} processes these have not come within {GATHERING:.0f} s: {missing}."
                ) from None
            line = Line(connection)
            with contextlib.suppress(OSError, ValueError, KeyError):  # somebody else's connection
                hello = line.receive().content
                refusal = _refusal(seat, hello, lines)
                line.send({"refusal": refusal, "name": f"pid {os.getpid()} on {socket.gethostname()}"})
                if refusal is None:
                    lines[hello["number"]], names[hello["number"]] = line, hello["name"]
    return Team(seat, lines, names)


def _refusal(seat: Seat, hello: Mapping[str, Any], lines: Mapping[int, Line]) -> str | None:
    """Why somebody cannot be one of us; None if they can."""
    if not hmac.compare_digest(hello["secret"], seat.secret):
        return f"the processes must have the same {SECRET}"
    if hello["version"] != __version__:
        return f"process 0 has Slipstream {__version__}, and this one {hello['version']}"
    if hello["count"] != seat.count:
        return f"process 0 has {PROCESSES}={seat.count}, and this one {hello['count']}"
    if hello["number"] in lines:
        return f"there is a process with {PROCESS}={hello['number']} already"
    return None


def _join(seat: Seat, me: Mapping[str, Any]) -> Team:
    until = time.monotonic() + GATHERING
    while True:
        try:
            line = Line(socket.create_connection((seat.host, seat.port + 1), timeout=HEARTBEAT))
            line.send({**me, "number": seat.number, "count": seat.count})
            answer = line.receive().content
            break
        except OSError as error:
            if time.monotonic() > until:
                where = f"port {seat.port + 1} of {seat.host}"
                raise ValueError(f"Process 0 does not answer at {where}: {error.strerror or error}.") from error
            time.sleep(0.1)
    if answer["refusal"] is not None:
        raise ValueError(f"Process 0 does not take process {seat.number}: {answer['refusal']}.")
    return Team(seat, {0: line}, {0: answer["name"]})


def _join_jax(seat: Seat) -> None:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(
            f"{seat.host}:{seat.port}",
            seat.count,
            seat.number,
            cluster_detection_method="deactivate",
            coordinator_bind_address=f"{seat.host}:{seat.port}" if seat.local else f"[::]:{seat.port}",
        )
    except RuntimeError as error:
        raise ValueError(
            f"JAX cannot join the processes: {str(error).splitlines()[0]} Train before anything else uses JAX, "
            "and only once."
        ) from error
    if len(jax.local_devices()) > 1:
        raise ValueError(
            f"Process {seat.number} sees {len(jax.local_devices())} devices, and needs one of its own: give it one "
            "with CUDA_VISIBLE_DEVICES."
        )
