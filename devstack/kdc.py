"""Run a Kerberos server on this machine, Hadoop's MiniKdc, for tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from devstack.jars import Progress, fetch, kdc
from devstack.ports import free_port
from devstack.processes import Process, Processes, java, stop

REALM = "EXAMPLE.COM"
START_SECONDS = 60.0
_JVM = ("-Xms32m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
_MAIN = "org.apache.hadoop.minikdc.MiniKdc"
_SETTINGS = """org.name=EXAMPLE
org.domain=COM
instance=KDC
kdc.bind.address=localhost
kdc.port={port}
transport=TCP
max.ticket.lifetime=86400000
max.renewable.lifetime=604800000
debug=false
"""


class Kdc:
    """A KDC of one realm on a free port of the loopback address. Its principals have random keys, and live in memory.

    :param folder: for its files; emptied at the start.
    :param processes: where its process is started.
    :param principals: without their realm.
    """

    def __init__(self, folder: Path, processes: Processes, principals: Sequence[str]) -> None:
        self.folder = folder
        self.process: Process | None = None
        self._processes = processes
        self._principals = principals

    @property
    def conf(self) -> Path:
        """The krb5.conf that leads to it."""
        return self.folder / "krb5.conf"

    @property
    def all_keys(self) -> Path:
        """A keytab with the keys of all principals."""
        return self.folder / "all.keytab"

    def start(self, progress: Progress | None = None) -> None:
        """Fetch missing jars, start it, and wait until it has its principals.

        :raises StackError: Java or a jar is missing, or it did not start within 60 s.
        """
        jars = fetch(kdc(), progress=progress)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        settings = self.folder / "kdc.properties"
        settings.write_text(_SETTINGS.format(port=free_port()))
        paths = [str(self.folder), str(settings), str(self.all_keys)]
        command = [java(), *_JVM, "-Djava.net.preferIPv4Stack=true", "-cp", f"{jars}/*", _MAIN, *paths]
        self.process = self._processes.start("kdc", [*command, *self._principals], env={}, folder=self.folder)
        # It writes the keys last.
        self._processes.wait_for("the KDC", self.conf.is_file, START_SECONDS, self.process)
        self._processes.wait_for(
            "its keys", lambda: "created keytab" in self.process_log(), START_SECONDS, self.process
        )

    def process_log(self) -> str:
        """Return what it has written."""
        assert self.process is not None
        return self.process.log.read_text(errors="replace")

    def keytab(self, principal: str) -> bytes:
        """Return a keytab with the keys of one principal.

        :param principal: without its realm.
        """
        name = principal.encode().split(b"/")
        realm = REALM.encode()
        begins = len(name).to_bytes(2, "big") + b"".join(len(each).to_bytes(2, "big") + each for each in (realm, *name))
        return b"\x05\x02" + b"".join(each for each in _entries(self.all_keys) if each[4:].startswith(begins))

    def stop(self) -> None:
        """Stop it. Does nothing if it is not running."""
        stop(self.process)


def _entries(keytab: Path) -> Iterator[bytes]:
    """Yield the entries of a keytab, each with its length before it."""
    content = keytab.read_bytes()[2:]
    while content:
        end = 4 + int.from_bytes(content[:4], "big")
        yield content[:end]
        content = content[end:]
