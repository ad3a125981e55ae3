"""A stand-in for Kubernetes: an API server on a real port, whose pods are processes of this machine.

**It is no Kubernetes.** No API server and no kubelet can be had here, so what it does is what we have read that they
do: names and 409, label selectors, watches over HTTP and WebSocket, dry runs, quotas of a namespace, finalizers,
graceful and forced deletion, the collection of what an object owns, nodes that fall silent, die or are removed. A test
that passes on it says that our code fits to that reading. `docs/clusters.md` says how to run the contract on a real
cluster.

Here it is started and asked; `devstack/kubernetes_server.py` is the server.
"""

from __future__ import annotations

import contextlib
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from devstack.hadoop_conf import write_properties
from devstack.jars import JarSet, Progress, fetch
from devstack.ports import HOST, free_port
from devstack.processes import Process, Processes, stop
from devstack.spark import QUICK_JVM
from devstack.spark_image import IMAGE

START_SECONDS = 600.0
NAMESPACE = "streams"
NODE = "node-1"
"""The node that there is from the beginning."""
# Not secret: the server is on the loopback address, and ends with the test.
TOKEN = "stand-in-token"


class StandIn:
    """A stand-in on a free port of the loopback address.

    :param folder: for logs and working folders of pods.
    :param processes: where its process is started, as ``kubernetes``; its pods end with them.
    :param progress: called while jars are fetched.
    :param nodes: number of nodes: node-1, node-2, …
    :param libraries: jars of its image, besides Spark's own.
    :param core_site: Hadoop's settings of its image, as in its core-site.xml.
    :param environment: of its image, where that is to differ from Spark, Java and Python as they are here.
    """

    def __init__(
        self,
        folder: Path,
        processes: Processes,
        progress: Progress | None = None,
        *,
        nodes: int = 1,
        libraries: Sequence[JarSet] = (),
        core_site: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.process: Process | None = None
        self._port = free_port()
        self.address = f"http://{HOST}:{self._port}"
        self._processes = processes
        self._progress = progress
        self._nodes = nodes
        self._libraries = libraries
        self._core_site = core_site or {}
        self._environment = environment or {}

    def start(self) -> None:
        """Fetch missing jars, start it, and wait until it answers.

        :raises StackError: a jar is missing, or it does not answer within 600 s.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "devstack.kubernetes_server", str(self._port), str(self.folder)]
        environment = {"PYTHONPATH": str(Path(__file__).parents[1]), **self._image(), **self._environment}
        self.process = self._processes.start("kubernetes", command, env=environment, folder=self.folder)
        self._processes.wait_for("the stand-in for Kubernetes to answer", self._answers, START_SECONDS, self.process)
        for number in range(2, self._nodes + 1):
            self.ask("POST", f"/stand-in/node/node-{number}")

    def stop(self) -> None:
        """Stop it."""
        stop(self.process)

    @property
    def connection(self) -> dict[str, Any]:
        """An Airflow connection of type ``spark`` to it."""
        return {"conn_type": "spark", "host": f"k8s://{self.address}", "password": TOKEN, "extra": self.extra}

    @property
    def extra(self) -> dict[str, Any]:
        """What the extra of an Airflow connection to it needs."""
        return {"namespace": NAMESPACE, "image": IMAGE, "service_account": "spark"}

    @property
    def conf(self) -> dict[str, str]:
        """Spark conf for applications: quick start on few cores, and one executor of two cores."""
        return {
            # Pods are processes of this machine, and find the API server where we do.
            "spark.kubernetes.driver.master": self.address,
            "spark.driver.extraJavaOptions": QUICK_JVM,
            "spark.executor.extraJavaOptions": QUICK_JVM,
            "spark.executor.instances": "1",
            "spark.executor.cores": "2",
        }

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """Ask it as its administrator; `path` from ``/api/v1/`` on, or ``/stand-in/…``.

        :raises urllib.error.HTTPError: the answer is an error.
        """
        url = self.address + (path if path.startswith("/stand-in/") else f"/api/v1/{path}")
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": kind}, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())

    def pods(self, selector: str = "") -> list[dict[str, Any]]:
        """Return the pods of the namespace."""
        found: list[dict[str, Any]] = self.ask("GET", f"namespaces/{NAMESPACE}/pods?labelSelector={selector}")["items"]
        return found

    def node_of(self, submission: str) -> str:
        """Return the node on which a driver's pod is.

        :raises urllib.error.HTTPError: there is no such pod.
        """
        namespace, _, name = submission.partition("/")
        return str(self.ask("GET", f"namespaces/{namespace}/pods/{name}")["spec"]["nodeName"])

    def log(self, pod: str) -> str:
        """Return the log of a pod, also of one that is gone."""
        return (self.folder / f"{NAMESPACE}.{pod}.log").read_text(errors="replace")

    def _image(self) -> dict[str, str]:
        path = [f"{fetch(each, progress=self._progress)}/*" for each in self._libraries]
        if self._core_site:
            # Behind all jars: see `Spark.start`.
            write_properties(self.folder / "hadoop" / "core-site.xml", self._core_site)
            path.append(str(self.folder / "hadoop"))
        return {"SPARK_DIST_CLASSPATH": ":".join(path)} if path else {}

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.address}/version", timeout=5).close()
        except OSError:
            return False
        return True


@contextlib.contextmanager
def standin(folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[StandIn]:
    """Run a stand-in with one node, and Spark as it is here.

    :param folder: for logs and working folders.
    :param environment: of its image, where that is to differ from Spark, Java and Python as they are here.
    :raises StackError: it does not come up.
    """
    with contextlib.closing(Processes(folder / "logs")) as processes:
        started = StandIn(folder, processes, environment=environment)
        started.start()
        yield started
