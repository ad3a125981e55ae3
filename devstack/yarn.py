"""Run a small YARN: a real ResourceManager and real NodeManagers, each in a process of its own, for tests."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from devstack import reaper
from devstack.hadoop_conf import write_properties
from devstack.jars import JarSet, Progress, fetch, spark_connector, yarn
from devstack.ports import HOST, free_port
from devstack.processes import Process, Processes, java, stop
from devstack.spark import QUICK_JVM, bundled_spark

START_SECONDS = 600.0
NODES = 2
MEMORY = 4096  # MiB that each NodeManager offers
JVM = (
    *("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    *("-Djava.net.preferIPv4Stack=true", "--add-opens=java.base/java.lang=ALL-UNNAMED"),
)
_SERVER = "org.apache.hadoop.yarn.server"
_MANAGER_PORTS = ("address", "scheduler.address", "resource-tracker.address", "admin.address")
_NODE_PORTS = ("address", "localizer.address", "webapp.address")
# Log4j's, which Hadoop brings.
_LOGGING = """log4j.rootLogger=INFO,out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %p %c: %m%n
"""
# A queue in which one driver may wait and run, and one that takes no more.
QUEUES = {
    "root.queues": "default,narrow,closed",
    "root.default.capacity": "50",
    "root.default.maximum-capacity": "100",
    "root.default.user-limit-factor": "10",
    "root.default.maximum-am-resource-percent": "1.0",
    "root.narrow.capacity": "50",
    "root.narrow.maximum-am-resource-percent": "0.1",
    "root.closed.capacity": "0",
    "root.closed.state": "STOPPED",
    "resource-calculator": "org.apache.hadoop.yarn.util.resource.DefaultResourceCalculator",
}


class Yarn:
    """One ResourceManager and its NodeManagers on free ports of the loopback address.

    Containers run as the user who runs it, whatever name an application was submitted with. It has no Kerberos: users
    are believed by their name. Spark is the one of this Python.

    `node_names` are those of the NodeManagers' processes, each with folders of its own: yarn-node-1 and yarn-node-2.

    :param folder: folder for its files; emptied at the first start.
    :param processes: where its processes are started.
    :param progress: called while jars are fetched.
    :param settings: of yarn-site.xml, besides those that it needs.
    :param libraries: jars on the class path of drivers and executors besides the Kafka connector.
    :param core_site: of core-site.xml.
    """

    def __init__(
        self,
        folder: Path,
        processes: Processes,
        progress: Progress | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        libraries: Sequence[JarSet] = (),
        core_site: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.resource_manager: Process | None = None
        self.node_managers: dict[str, Process] = {}
        self.web_url = f"http://{HOST}:{free_port()}"
        self.node_names = [f"yarn-node-{number}" for number in range(1, NODES + 1)]
        # A process that is started again has its ports again; the ResourceManager knows a node by them.
        named = [*_MANAGER_PORTS, *(f"{name}.{port}" for name in self.node_names for port in _NODE_PORTS)]
        self._ports = {name: f"{HOST}:{free_port()}" for name in named}
        self._settings = settings or {}
        self._libraries = libraries
        self._core_site = core_site or {}
        self._processes = processes
        self._progress = progress
        self._jars = Path()
        self._jvm: tuple[str, ...] = JVM

    @property
    def connection(self) -> dict[str, Any]:
        """An Airflow connection of type ``spark`` to it."""
        extra = {
            "yarn_resourcemanager_webapp_address": self.web_url,
            "spark_home": str(bundled_spark()),
            "python": sys.executable,
            # The NodeManagers call themselves so, and it may be an IPv6 address, too.
            "worker_hosts": "localhost,127.0.0.1",
        }
        return {"conn_type": "spark", "host": "yarn", "login": pwd.getpwuid(os.getuid()).pw_name, "extra": extra}

    def port_of(self, name: str, which: str = "webapp.address") -> str:
        """Return a port of a NodeManager: of its pages, or ``address``, by which the ResourceManager knows it."""
        return self._ports[f"{name}.{which}"].rpartition(":")[2]

    @property
    def conf(self) -> dict[str, str]:
        """Spark conf for applications: the connector, quick start on few cores, and one executor of two cores."""
        return {
            "spark.driver.extraClassPath": self.class_path,
            "spark.executor.extraClassPath": self.class_path,
            "spark.driver.extraJavaOptions": QUICK_JVM,
            "spark.executor.extraJavaOptions": QUICK_JVM,
            "spark.executor.instances": "1",
            "spark.executor.cores": "2",
        }

    def start(self) -> None:
        """Fetch missing jars, start all, and wait until the NodeManagers have registered.

        :raises StackError: Java or a jar is missing, or a NodeManager has not registered within 600 s.
        """
        self._jars = fetch(yarn(), progress=self._progress)
        sets = (spark_connector(bundled_spark()), *self._libraries)
        self.class_path = ":".join(f"{fetch(each, progress=self._progress)}/*" for each in sets)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.start_resource_manager()
        for name in self.node_names:
            self.start_node(name)
        self.wait_for_nodes(len(self.node_names))

    def start_resource_manager(self) -> None:
        """Start the ResourceManager, for the first time or again."""
        conf = self.write_conf("resourcemanager", {})
        main = f"{_SERVER}.resourcemanager.ResourceManager"
        self.resource_manager = self._start("yarn-resourcemanager", conf, main)

    def start_node(self, name: str) -> None:
        """Start a NodeManager, for the first time or again; its process is in `node_managers`."""
        own = self.folder / name
        settings = {
            **{f"yarn.nodemanager.{port}": self._ports[f"{name}.{port}"] for port in _NODE_PORTS},
            "yarn.nodemanager.local-dirs": str(own / "local"),
            "yarn.nodemanager.log-dirs": str(own / "logs"),
            "yarn.nodemanager.resource.memory-mb": str(MEMORY),
            "yarn.nodemanager.resource.cpu-vcores": "8",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.enable": "false",
            # A node looks once all the same, when it starts, and a disk of more than 90 % is none to it.
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
            # What containers inherit; the mark, so that what they leave behind is killed with the stack.
            "yarn.nodemanager.env-whitelist": f"JAVA_HOME,HADOOP_CONF_DIR,PATH,LANG,TZ,{reaper.VARIABLE}",
        }
        main = f"{_SERVER}.nodemanager.NodeManager"
        self.node_managers[name] = self._start(name, self.write_conf(name, settings), main)

    def wait_for_nodes(self, number: int) -> None:
        """Wait until so many NodeManagers are RUNNING, and the ResourceManager calls itself active, which it does last.

        :raises StackError: they are not within 600 s, or a process has ended.
        """
        assert self.resource_manager is not None
        self._processes.wait_for(
            "YARN's nodes to register",
            lambda: (
                len([each for each in self.nodes() if each["state"] == "RUNNING"]) == number
                and (self.ask("info").get("clusterInfo") or {}).get("haState") == "ACTIVE"
            ),
            START_SECONDS,
            self.resource_manager,
        )

    def nodes(self) -> list[dict[str, Any]]:
        """Return what the ResourceManager says of its nodes; nothing if it does not answer."""
        return list((self.ask("nodes").get("nodes") or {}).get("node", ()))

    def ask(self, path: str) -> dict[str, Any]:
        """Return what the ResourceManager's REST says; {} if it does not answer."""
        with (
            contextlib.suppress(OSError, ValueError),
            urllib.request.urlopen(f"{self.web_url}/ws/v1/cluster/{path}", timeout=5) as page,
        ):
            found: dict[str, Any] = json.load(page)
            return found
        return {}

    def stop(self) -> None:
        """Stop all, and with the NodeManagers their containers."""
        stop(*self.node_managers.values(), self.resource_manager)

    def _start(self, name: str, conf: Path, main: str) -> Process:
        command = [java(), *self._jvm, "-cp", f"{conf}:{self._jars}/*", main]
        home = str(Path(java()).resolve().parents[1])
        environment = {"HADOOP_CONF_DIR": str(conf), "JAVA_HOME": os.environ.get("JAVA_HOME", home)}
        return self._processes.start(name, command, env=environment, folder=conf)

    def write_conf(self, name: str, settings: Mapping[str, str]) -> Path:
        """Write the configuration of one process, and return its folder."""
        folder = self.folder / name / "conf"
        folder.mkdir(parents=True, exist_ok=True)
        manager = "yarn.resourcemanager"
        site = {
            **{f"{manager}.{port}": self._ports[port] for port in _MANAGER_PORTS},
            f"{manager}.hostname": HOST,
            f"{manager}.webapp.address": self.web_url.partition("//")[2],
            f"{manager}.scheduler.class": f"{_SERVER}.resourcemanager.scheduler.capacity.CapacityScheduler",
            # A second, by default: drivers and their ends are seen sooner.
            f"{manager}.nodemanagers.heartbeat-interval-ms": "200",
            # Half a minute by default, after which a node asks again for a ResourceManager that was away.
            f"{manager}.connect.retry-interval.ms": "1000",
            "yarn.scheduler.minimum-allocation-mb": "128",
            "yarn.scheduler.maximum-allocation-mb": str(MEMORY),
            **self._settings,
            **settings,
        }
        queues = {f"yarn.scheduler.capacity.{key}": value for key, value in QUEUES.items()}
        core = {"hadoop.tmp.dir": str(self.folder / name / "tmp"), **self._core_site}
        for file, properties in (("yarn-site", site), ("capacity-scheduler", queues), ("core-site", core)):
            write_properties(folder / f"{file}.xml", properties)
        (folder / "log4j.properties").write_text(_LOGGING)
        return folder
