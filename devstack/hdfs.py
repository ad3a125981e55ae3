"""Run a small HDFS: a real NameNode and a real DataNode in one process, for tests and benchmarks."""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from devstack.hadoop_conf import write_properties
from devstack.jars import fetch, hdfs
from devstack.ports import HOST, free_port, listening
from devstack.processes import Process, Processes, java, stop

START_SECONDS = 180.0
JVM = (
    *("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    "-Djava.net.preferIPv4Stack=true",
)
# Hadoop's own launcher of a MiniDFSCluster, which runs until it is stopped.
MAIN = "org.apache.hadoop.test.MiniDFSClusterManager"


class Hdfs:
    """One NameNode and one DataNode on free ports of the loopback address. A restart keeps the files.

    Whoever runs it is HDFS's superuser. Other users are believed by their name, as in any HDFS without Kerberos.

    :param folder: folder for its files; emptied at the first start.
    :param processes: where its process is started.
    :param sites: settings of core-site.xml and hdfs-site.xml, by the file's name without ``.xml``.
    :param jvm: more options for its Java.
    """

    def __init__(
        self,
        folder: Path,
        processes: Processes,
        *,
        sites: Mapping[str, Mapping[str, str]] | None = None,
        jvm: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self._sites = sites or {}
        self._jvm = (*JVM, *jvm)
        self.port = free_port()
        self.url = f"hdfs://{HOST}:{self.port}"
        self.process: Process | None = None
        self._http = free_port()
        self._processes = processes
        self._formatted = False

    @property
    def web_url(self) -> str:
        """Where WebHDFS answers."""
        return f"http://{HOST}:{self._http}"

    @property
    def connection(self) -> dict[str, Any]:
        """An Airflow connection of type ``webhdfs`` to it, as the user who runs it and the drivers.

        Hadoop knows that user by its number, which in a user namespace is another one than the environment says.
        """
        address, user = urlsplit(self.web_url), pwd.getpwuid(os.getuid()).pw_name
        return {"conn_type": "webhdfs", "host": address.hostname, "port": address.port, "login": user}

    def start(self) -> None:
        """Fetch missing jars, format the NameNode at the first start, and wait until the DataNode takes files.

        :raises StackError: Java or a jar is missing, or HDFS did not start within 180 s.
        """
        runtime = java()
        jars = fetch(hdfs())
        if not self._formatted:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        details = self.folder / "up.json"
        details.unlink(missing_ok=True)
        options = [f"-nnport {self.port}", f"-httpport {self._http}", "-datanodes 1", f"-writeDetails {details}"]
        for name, settings in self._sites.items():
            write_properties(self.folder / f"{name}.xml", settings)
        command = [runtime, *self._jvm, f"-Dtest.build.data={self.folder}", "-cp", f"{self.folder}:{jars}/*", MAIN]
        command += [word for option in options for word in option.split(" ", 1)]
        command += [] if self._formatted else ["-format"]
        self.process = self._processes.start("hdfs", command, env={}, folder=self.folder)
        # It writes its details once the DataNode has announced itself.
        self._processes.wait_for(
            "HDFS to take files", lambda: details.exists() and listening(self.port), START_SECONDS, self.process
        )
        self._formatted = True

    def stop(self) -> None:
        """Stop it. Does nothing if it is not running."""
        stop(self.process)
