"""A PostgreSQL server of one's own, in a folder that is thrown away. It refuses to run as root, so nobody runs it."""

import contextlib
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import psutil

USER = "slipstream"


def programs() -> Path | None:
    """Where PostgreSQL's programs are, if they are installed."""
    found = shutil.which("postgres")
    places = [Path(found).resolve().parent] if found else []
    places += [Path(p).parent for p in sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"), reverse=True)]
    return next((p for p in places if (p / "initdb").exists()), None)


class Postgres:
    """A server that can be killed and started again."""

    def __init__(self, folder: Path):
        bin = programs()
        assert bin is not None, "PostgreSQL is missing: scripts/setup.sh installs it"
        self._bin, self._data, self._socket = bin, folder / "data", folder / "socket"
        self._who = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid} if os.geteuid() == 0 else {}
        for made in (self._data, self._socket):
            made.mkdir()
            if self._who:
                os.chown(made, pwd.getpwnam("nobody").pw_uid, self._who["group"])
        how = ("-U", USER, "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C", "--data-checksums")
        self._run("initdb", "-D", self._data, *how)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self._server: subprocess.Popen | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://{USER}@127.0.0.1:{self.port}/postgres"

    def _run(self, program: str, *arguments) -> None:
        command = [str(self._bin / program), *map(str, arguments)]
        subprocess.run(command, check=True, capture_output=True, cwd=self._socket, **self._who)

    def start(self) -> None:
        flags = ["-D", self._data, "-p", self.port, "-k", self._socket, "-h", "127.0.0.1", "-c", "shared_buffers=16MB",
                 "-c", "recovery_init_sync_method=syncfs"]  # fmt: skip
        self._server = subprocess.Popen(
            [str(self._bin / "postgres"), *map(str, flags)],
            cwd=self._socket,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **self._who,
        )
        end = time.monotonic() + 60
        while self.running and time.monotonic() < end:
            with contextlib.suppress(subprocess.CalledProcessError):
                self._run("pg_isready", "-h", "127.0.0.1", "-p", self.port, "-U", USER)
                return
            time.sleep(0.1)
        raise TimeoutError("PostgreSQL does not start.")

    @property
    def running(self) -> bool:
        return self._server is not None and self._server.poll() is None

    def kill(self) -> None:
        """SIGKILL to all of its processes, as if the machine had lost its power."""
        assert self._server is not None
        main = psutil.Process(self._server.pid)
        main.suspend()  # so that nobody is born meanwhile
        processes = [main, *main.children(recursive=True)]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._server.wait()
        psutil.wait_procs(processes[1:], timeout=10)

    def check_pages(self) -> None:
        """Stop, and raise an error if a table, an index or the checksum of any page on the disk is wrong."""
        where = ("-h", "127.0.0.1", "-p", self.port, "-U", USER)
        self._run("pg_amcheck", *where, "--install-missing", "--heapallindexed", "postgres")
        self.stop()
        self._run("pg_checksums", "--check", "-D", self._data)

    def stop(self) -> None:
        if self.running:
            self._server.send_signal(signal.SIGINT)
            self._server.wait()


@contextlib.contextmanager
def postgres():
    # Not in pytest's own folder, which only its owner may enter.
    with tempfile.TemporaryDirectory(prefix="slipstream-postgres-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        server = Postgres(Path(folder))
        try:
            yield server
        finally:
            server.stop()
