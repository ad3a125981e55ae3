"""Run one MariaDB server, as a part of the local stack."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from devstack.errors import StackError
from devstack.ports import HOST, free_port
from devstack.processes import Process, Processes

START_SECONDS = 120.0
USER = "stream"
# Debian keeps the server where only root's PATH looks.
_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))
_PROGRAMS = ("mariadb-install-db", "mariadbd", "my_print_defaults")


class MariaDBServer:
    """A server on a free port of the loopback address, where one user may do all. Its data is deleted at the start.

    :param folder: for its data; emptied at the start.
    :param processes: where its processes are started.
    :param settings: of the server, besides its own.
    """

    def __init__(self, folder: Path, processes: Processes, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.port = free_port()
        self.process: Process | None = None
        self._processes = processes
        self._settings = settings or {}

    def url(self, database: str = "test") -> str:
        """The address of one of its databases."""
        return f"mysql://{USER}:secret@{HOST}:{self.port}/{database}"

    def start(self) -> None:
        """Create the data folder, start the server, and wait until it serves clients.

        :raises StackError: there is no MariaDB on this machine, or it did not start.
        """
        if why := missing():
            raise StackError(why, next_step="Install Debian's package mariadb-server.")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        first = self.folder / "first.sql"
        first.write_text(
            f"create database if not exists test;\n"
            f"create user if not exists {USER}@'{HOST}' identified by 'secret';\n"
            f"grant all on *.* to {USER}@'{HOST}' with grant option;\n"
        )
        ours = ["--no-defaults", f"--datadir={self.folder / 'data'}"]
        if os.geteuid() == 0:
            ours.append("--user=root")
        create = ["mariadb-install-db", *ours, "--auth-root-authentication-method=normal", "--skip-test-db"]
        self._processes.run("mariadb-install-db", _command(create), env={}, folder=self.folder, seconds=START_SECONDS)
        serve = ["mariadbd", *ours, f"--port={self.port}", f"--bind-address={HOST}", "--skip-name-resolve"]
        serve += ["--socket=socket", f"--pid-file={self.folder / 'pid'}", f"--init-file={first}"]
        settings = {"innodb-buffer-pool-size": "32M", **self._settings}
        serve += [f"--{name}={value}" for name, value in settings.items()]
        self.process = self._processes.start("mariadb", _command(serve), env={}, folder=self.folder)
        self.wait()

    def wait(self) -> None:
        """Wait until it serves clients."""
        assert self.process is not None
        self._processes.wait_for("MariaDB to serve clients", self._serves, START_SECONDS, self.process)

    def _serves(self) -> bool:
        import pymysql

        try:
            pymysql.connect(host=HOST, port=self.port, user=USER, password="secret", database="test").close()
        except pymysql.OperationalError:
            return False
        return True


def missing() -> str:
    """Return why no MariaDB can run here; empty: one can."""
    lacks = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    return f"There is no {', '.join(lacks)} on this machine: Debian's package mariadb-server has it." if lacks else ""


def _command(words: list[str]) -> list[str]:
    program, *rest = words
    return [str(shutil.which(program, path=_PATH)), *rest]
