"""Where the page is: this machine, and a port that nobody else has."""

from __future__ import annotations

import socket
from contextlib import closing

HOST = "127.0.0.1"
USUAL = 8080


def choose_port(host: str, port: int | None) -> int:
    """A port that is free, or an error that says which one is not.

    Args:
        host: of the page.
        port: which one; None: the usual one, or any other if that is taken. 0: any.
    """
    if port is not None:
        if not 0 <= port < 65536:
            raise ValueError(f"--port must be within 0 .. 65535, got {port}.")
        return _bound(host, port)
    try:
        return _bound(host, USUAL)
    except ValueError:
        return _bound(host, 0)


def _bound(host: str, port: int) -> int:
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ValueError(
                f"The page cannot be at {host}:{port}: {error.strerror}. Choose another --port."
            ) from error
        return probe.getsockname()[1]
