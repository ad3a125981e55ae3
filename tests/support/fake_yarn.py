"""A ResourceManager of YARN and its NodeManagers, over real HTTP: they say what a test wants them to say.

What they say was measured on Hadoop 3.4.1 (`tests/integration/clusters/test_yarn.py` runs on the real ones).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from airflow_stream_provider.clusters import ClusterConnection
from airflow_stream_provider.clusters.connection import ADDRESS, YarnSettings
from airflow_stream_provider.clusters.whose import Whose
from airflow_stream_provider.clusters.yarn import YarnCluster

DEPLOYMENT = "orders-2-1a2b"
WHOSE = Whose(DEPLOYMENT, "5e6f7a8b" * 4)
STARTED = 1_700_000_000_000
ID = f"application_{STARTED}_0001"

Answer = tuple[int, dict[str, Any] | str]


class _Server:
    """Answers with what `answer` returns for method, path, query and body."""

    def __init__(self, answer: Callable[[str, str, dict[str, str], Any], Answer]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = {key: values[0] for key, values in parse_qs(parts.query).items()}
                data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, body = answer(self.command, parts.path, query, json.loads(data) if data else None)
                text = (body if isinstance(body, str) else json.dumps(body)).encode()
                self.send_response(status)
                if status == 401:
                    self.send_header("WWW-Authenticate", "Negotiate")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_POST = do_PUT = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


class FakeNode:
    """A NodeManager: `apps` by id with their states, `containers` by id, `started` in milliseconds.

    `recovers`: it finds its containers again when it is started anew. `logs`: files of containers, by
    ``CONTAINER/FILE``.
    """

    def __init__(self, name: str, started: int) -> None:
        self.name = name
        self.started = started
        self.apps: dict[str, str] = {}
        self.containers: list[str] = []
        self.recovers = False
        self.logs: dict[str, str] = {}
        self.server = _Server(self._answer)
        self.listed: dict[str, Any] = {
            "id": f"{name}:45454",
            "nodeHostName": name,
            "state": "RUNNING",
            "nodeHTTPAddress": self.server.address,
            "availMemoryMB": 4096,
        }

    def _answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Answer:
        if path == "/conf":
            return 200, {"property": {"key": query["name"], "value": str(self.recovers).lower()}}
        what = path.removeprefix("/ws/v1/node/")
        if what.startswith("containerlogs/"):
            return self._log(what.removeprefix("containerlogs/"), int(query["size"]))
        if what == "info":
            return 200, {"nodeInfo": {"nmStartupTime": self.started}}
        if what == "containers":
            found = [{"id": container, "state": "RUNNING"} for container in self.containers]
            return 200, {"containers": {"container": found} if found else None}
        state = self.apps.get(what.removeprefix("apps/"))
        return (200, {"app": {"state": state}}) if state else (404, {})

    def _log(self, file: str, size: int) -> Answer:
        if file not in self.logs:
            return 404, {}
        container, _, name = file.partition("/")
        head = f"Container: {container} on {self.name}\nLogAggregationType: LOCAL\n{'=' * 40}\nLogType:{name}\n"
        return 200, f"{head}LogLength:9\nLogContents:\n{self.logs[file][size:]}\nEnd of LogType:{name}\n{'*' * 40}\n\n"


class FakeYarn:
    """`apps` by id; `info` is what it says of itself; `asked` has method and path of each request.

    `answers`: by method and path, what is answered in place of what it would. `forgets`: it takes submissions, and
    does not keep them. `takes`: fields of what it is sent from then on.
    """

    def __init__(self) -> None:
        self.info: dict[str, Any] = {"state": "STARTED", "haState": "ACTIVE", "startedOn": STARTED}
        self.apps: dict[str, dict[str, Any]] = {}
        self.scheduler: dict[str, Any] = {"type": "fifoScheduler"}
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.sent: list[dict[str, Any]] = []
        self.forgets = False
        self.takes: dict[str, Any] = {}
        self.nodes: list[FakeNode] = []
        self.handed_out = 0
        self._server = _Server(self._answer)
        self.url = f"http://{self._server.address}"

    def connection(self, **extra: Any) -> ClusterConnection:
        fields = {ADDRESS: self.url, "spark_home": "/opt/spark", **extra}
        return ClusterConnection("yarn", extra=fields, login="alice")

    def cluster(self, **extra: Any) -> YarnCluster:
        return YarnCluster(YarnSettings.of(self.connection(**extra)))

    def add_node(self, name: str = "node1", started: int = STARTED) -> FakeNode:
        self.nodes.append(FakeNode(name, started))
        return self.nodes[-1]

    def add_app(self, id: str = ID, state: str = "RUNNING", **fields: Any) -> dict[str, Any]:
        tags = f"airflow-stream,{DEPLOYMENT},log-{WHOSE.log}"
        final = {"RUNNING": "UNDEFINED", "ACCEPTED": "UNDEFINED"}.get(state, state)
        app = {
            "id": id,
            "state": state,
            "finalStatus": final,
            "user": "alice",
            "name": f"orders 2 [{DEPLOYMENT}] 5e6f7a8b",
            "applicationTags": tags,
            "startedTime": STARTED + 60_000,
            "amContainerLogs": "http://node1:8042/logs",
            "amHostHttpAddress": "node1:8042",
            "trackingUrl": "http://rm:8088/proxy/1/",
        }
        self.apps[id] = {**app, **fields}
        return self.apps[id]

    def close(self) -> None:
        for each in (self._server, *(node.server for node in self.nodes)):
            each.close()

    def _answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Answer:
        what = path.removeprefix("/ws/v1/cluster/")
        self.asked.append(f"{method} {what}")
        if f"{method} {what}" in self.answers:
            return self.answers[f"{method} {what}"]
        if what == "info":
            return 200, {"clusterInfo": self.info}
        if what == "nodes":
            return 200, {"nodes": {"node": [node.listed for node in self.nodes]} if self.nodes else {}}
        if what == "scheduler":
            return 200, {"scheduler": {"schedulerInfo": self.scheduler}}
        if what == "apps/new-application":
            self.handed_out += 1
            return 200, {"application-id": f"application_{self.info['startedOn']}_{self.handed_out:04}"}
        if (method, what) == ("POST", "apps"):
            return self._take(body, query["user.name"])
        if what == "apps":
            wanted = query["applicationTags"]
            found = [app for app in self.apps.values() if wanted in app["applicationTags"].split(",")]
            return 200, {"apps": {"app": found} if found else None}
        id = what.removeprefix("apps/").removesuffix("/state")
        app = self.apps.get(id)
        if app is None:
            return 404, {"RemoteException": {"message": f"java.lang.Exception: app with id: {id} not found"}}
        if method == "PUT":
            app.update(state=body["state"], finalStatus=body["state"])
            return 202, {}
        return 200, {"app": app}

    def _take(self, body: dict[str, Any], user: str) -> Answer:
        self.sent.append(body)
        id = body["application-id"]
        if id not in self.apps and not self.forgets:
            tags = ",".join(body["application-tags"]["tag"])
            fields = {"state": "ACCEPTED", "user": user, "applicationTags": tags, "name": body["application-name"]}
            self.add_app(id, **fields | self.takes)
        return 202, {}
