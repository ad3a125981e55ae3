"""Run a ZooKeeper server from the jars that Spark brings, for masters that stand in for each other."""

from __future__ import annotations

import shutil
from pathlib import Path

from devstack.ports import HOST, free_port, listening
from devstack.processes import Process, Processes, java, stop

START_SECONDS = 60.0
JVM = (
    *("-Xms32m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    "-Djava.net.preferIPv4Stack=true",
    "-Dzookeeper.admin.enableServer=false",
)
MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
# Spark's masters ask for sessions of 60 s (SparkCuratorUtil); the server has the last word. So long does nobody lead
# after a master was killed.
SESSION_MILLISECONDS = 10_000


class ZooKeeper:
    """One ZooKeeper server on a free port of the loopback address. A restart keeps what it knows.

    :param folder: folder for its files; emptied at the first start.
    :param processes: where its process is started.
    :param class_path: where its jars are.
    """

    def __init__(self, folder: Path, processes: Processes, class_path: str) -> None:
        self.folder = folder
        self.port = free_port()
        self.address = f"{HOST}:{self.port}"
        self.process: Process | None = None
        self._processes = processes
        self._class_path = class_path

    def start(self) -> None:
        """Start it and wait until it takes connections.

        :raises StackError: Java is missing, or it did not start within 60 s.
        """
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        settings = self.folder / "zoo.cfg"
        settings.write_text(
            f"dataDir={self.folder}\nclientPort={self.port}\nclientPortAddress={HOST}\ntickTime=1000\n"
            f"maxSessionTimeout={SESSION_MILLISECONDS}\n"
        )
        command = [java(), *JVM, "-cp", self._class_path, MAIN, str(settings)]
        self.process = self._processes.start("zookeeper", command, env={}, folder=self.folder)
        self._processes.wait_for("ZooKeeper to listen", lambda: listening(self.port), START_SECONDS, self.process)

    def stop(self) -> None:
        """Stop it. Does nothing if it is not running."""
        stop(self.process)
