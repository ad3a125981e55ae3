"""A stand-in for Kubernetes: an API server on a real port, whose pods are processes of this machine.

**It is no Kubernetes.** No API server and no kubelet can be had here, so what it does is what we have read that they
do: names and 409, label selectors, watches over HTTP and WebSocket, dry runs, quotas of a namespace, finalizers,
graceful and forced deletion, the collection of what an object owns, nodes that fall silent or are gone. A test that
passes on it says that our code fits to that reading. `docs/clusters.md` says how to run the contract on a real cluster.

Run it as ``python -m devstack.kubernetes PORT FOLDER``; `standin` does that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web

from airflow_stream_provider.clusters.kubernetes_room import quantity
from devstack.kubernetes_objects import KINDS, Failure, Key, Object, Objects, Watcher
from devstack.ports import HOST, free_port
from devstack.process_kubelet import Kubelets
from devstack.processes import Process, Processes, java
from devstack.spark import bundled_spark

START_SECONDS = 180.0
NAMESPACE = "streams"
NODE = "node-1"
_OF_IMAGE = ("SPARK_HOME", "SPARK_DIST_CLASSPATH", "SPARK_CONF_DIR", "JAVA_TOOL_OPTIONS")
# Not secret: the server is on the loopback address, and ends with the test.
TOKEN = "stand-in-token"
_ACCOUNT = "system:serviceaccount:airflow:streams"
# Each resource that a quota may name, and what of a pod counts.
_QUOTA = {
    "cpu": ("requests", "cpu"),
    "requests.cpu": ("requests", "cpu"),
    "memory": ("requests", "memory"),
    "requests.memory": ("requests", "memory"),
    "limits.memory": ("limits", "memory"),
}


class Server:
    """The API server. Faults are asked for at ``/stand-in/``, which no Kubernetes has."""

    def __init__(self, folder: Path, image: Mapping[str, str]) -> None:
        self.objects = Objects()
        self.kubelets = Kubelets(self.objects, folder, image)
        # (verb, plural) that Airflow's account may not.
        self.denied: set[tuple[str, str]] = set()
        # So many answers to POST are lost: done, and the connection closed.
        self.lose = 0

    def app(self) -> web.Application:
        """Return the application for aiohttp; it needs a running loop."""
        app = web.Application(client_max_size=2**24)
        self.kubelets.add_node(NODE)
        app.router.add_get("/version", self._version)
        app.router.add_post("/stand-in/{what}/{name}", self._stand_in)
        for path in ("/api/v1/namespaces/{ns}/{kind}", "/api/v1/{kind}"):
            for rest in ("", "/{name}", "/{name}/{sub}"):
                app.router.add_route("*", path + rest, self._handle)
        return app

    async def _version(self, request: web.Request) -> web.Response:
        return web.json_response({"major": "1", "minor": "34", "gitVersion": "v1.34.0+stand-in"})

    async def _stand_in(self, request: web.Request) -> web.Response:
        what, name = request.match_info["what"], request.match_info["name"]
        if what == "silent":
            self.kubelets.fall_silent(name)
        elif what == "back":
            self.kubelets.come_back(name)
        elif what == "node":
            self.kubelets.add_node(name)
        elif what == "lose":
            self.lose = int(name)
        elif what == "deny":
            verb, _, kind = name.partition("-")
            self.denied.add((verb, kind))
        elif what == "allow":
            self.denied.clear()
        return web.json_response({})

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except Failure as failure:
            return web.json_response(failure.body, status=failure.code)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        namespace, kind = request.match_info.get("ns", ""), request.match_info["kind"]
        name, sub = request.match_info.get("name", ""), request.match_info.get("sub", "")
        if kind not in KINDS:
            raise Failure(404, "NotFound", "the server could not find the requested resource")
        self._authorize(request, kind, name, sub, namespace)
        query, key = dict(request.query), (kind, namespace, name)
        if request.method == "GET" and query.get("watch") in ("true", "1"):
            return await self._watch(request, Watcher(kind, namespace, query))
        if request.method == "GET" and sub == "log":
            self.objects.get(key)
            lines = self.kubelets.log(key).read_text(errors="replace").splitlines(keepends=True)
            return web.Response(text="".join(lines[-int(query.get("tailLines", len(lines))) :]))
        if request.method == "GET":
            return web.json_response(self._shown(self.objects.get(key)) if name else self._list(kind, namespace, query))
        body = json.loads(await request.read() or b"{}")
        if request.method == "POST":
            made = self._create(kind, namespace, body, dry_run=query.get("dryRun") == "All")
            if self.lose and request.transport and "dryRun" not in query:
                self.lose -= 1
                request.transport.close()
            return web.json_response(made, status=201)
        if request.method == "DELETE":
            return web.json_response(self._delete(key, query, body))
        return web.json_response(self._patch(key, body, status=sub == "status"))

    def _authorize(self, request: web.Request, kind: str, name: str, sub: str, namespace: str) -> None:
        kind = f"{kind}/{sub}" if sub == "log" else kind
        given = request.headers.get("Authorization", "")
        if given not in ("", f"Bearer {TOKEN}"):
            raise Failure(401, "Unauthorized", "Unauthorized")
        # The driver's own client has no token here, and may do everything.
        verbs = {"POST": "create", "DELETE": "delete" if name else "deletecollection", "PUT": "update"}
        verb = verbs.get(request.method, "patch" if request.method == "PATCH" else "get" if name else "list")
        if given and (verb, kind) in self.denied:
            where = f' in the namespace "{namespace}"' if namespace else " at the cluster scope"
            which = f' "{name}"' if name else ""
            raise Failure(
                403,
                "Forbidden",
                f'{kind}{which} is forbidden: User "{_ACCOUNT}" cannot {verb} resource "{kind}" in API group ""{where}',
            )

    def _create(self, kind: str, namespace: str, body: Object, *, dry_run: bool) -> Object:
        if kind == "pods":
            # Before the name is looked at, as admission is.
            self._check_quotas(namespace, body)
        return self.objects.create(kind, namespace, body, dry_run=dry_run)

    def _delete(self, key: Key, query: Mapping[str, str], body: Mapping[str, Any]) -> Object:
        grace = query.get("gracePeriodSeconds", body.get("gracePeriodSeconds"))
        seconds = None if grace is None else int(grace)
        if not key[2]:
            for each, _ in list(self.objects.of(key[0], key[1], query)):
                self.objects.delete(each, seconds)
            return {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        found = self.objects.delete(key, seconds)
        if key[0] == "nodes":
            self.kubelets.node_is_gone(key[2])
        return found

    def _patch(self, key: Key, change: Any, *, status: bool) -> Object:
        found = self.objects.patch(key, change, status=status)
        if key[0] == "nodes":
            self.kubelets.node_has_changed(key[2])
        return found

    def _list(self, kind: str, namespace: str, query: Mapping[str, str]) -> Object:
        found = [self._shown(each) for _, each in self.objects.of(kind, namespace, query)]
        metadata = {"resourceVersion": self.objects.version}
        return {"kind": f"{KINDS[kind]}List", "apiVersion": "v1", "metadata": metadata, "items": found}

    def _shown(self, found: Object) -> Object:
        if found.get("kind") != "ResourceQuota":
            return found
        hard = found["spec"].get("hard") or {}
        used = {
            name: str(amount) for name, amount in self._used(found["metadata"]["namespace"]).items() if name in hard
        }
        return {**found, "status": {"hard": hard, "used": used}}

    def _used(self, namespace: str) -> dict[str, Decimal]:
        pods = [each for _, each in self.objects.of("pods", namespace)]
        going = [each for each in pods if each["status"]["phase"] in ("Pending", "Running")]
        found = {name: sum((_counts(pod, name) for pod in going), Decimal(0)) for name in _QUOTA}
        return {**found, "pods": Decimal(len(going)), "count/pods": Decimal(len(pods))}

    def _check_quotas(self, namespace: str, pod: Object) -> None:
        used = self._used(namespace)
        for _, quota in self.objects.of("resourcequotas", namespace):
            for name, hard in (quota["spec"].get("hard") or {}).items():
                if name not in used:
                    continue
                asked = _counts(pod, name)
                if used[name] + asked > quantity(hard):
                    raise Failure(
                        403,
                        "Forbidden",
                        f'pods "{pod["metadata"]["name"]}" is forbidden: exceeded quota: {quota["metadata"]["name"]}, '
                        f"requested: {name}={asked}, used: {name}={used[name]}, limited: {name}={hard}",
                    )

    async def _watch(self, request: web.Request, watcher: Watcher) -> web.StreamResponse:
        since = int(watcher.query.get("resourceVersion") or 0)
        for _, found in self.objects.of(watcher.kind, watcher.namespace, watcher.query):
            if int(found["metadata"]["resourceVersion"]) > since:
                watcher.events.put_nowait({"type": "ADDED", "object": found})
        self.objects.watchers.append(watcher)
        try:
            if request.headers.get("Upgrade", "").lower() == "websocket":
                return await self._watch_by_websocket(request, watcher)
            stream = web.StreamResponse(headers={"Content-Type": "application/json"})
            await stream.prepare(request)
            while True:
                await stream.write(json.dumps(await watcher.events.get()).encode() + b"\n")
        finally:
            self.objects.watchers.remove(watcher)

    async def _watch_by_websocket(self, request: web.Request, watcher: Watcher) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)

        async def tell() -> None:
            while True:
                await socket.send_str(json.dumps(await watcher.events.get()))

        telling = asyncio.ensure_future(tell())
        try:
            while (await socket.receive()).type not in (WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.CLOSING):
                pass
        finally:
            telling.cancel()
        return socket


def _counts(pod: Object, name: str) -> Decimal:
    if name not in _QUOTA:
        return Decimal(1)
    kind, what = _QUOTA[name]
    resources = [each.get("resources") or {} for each in pod["spec"]["containers"]]
    return sum((quantity((each.get(kind) or {}).get(what, 0)) for each in resources), Decimal(0))


@dataclass(frozen=True)
class StandIn:
    """A running stand-in.

    :param address: such as ``http://127.0.0.1:20001``.
    """

    address: str
    process: Process
    folder: Path

    @property
    def extra(self) -> dict[str, Any]:
        """What the extra of an Airflow connection to it needs."""
        from devstack.process_kubelet import IMAGE

        return {"namespace": NAMESPACE, "image": IMAGE, "service_account": "spark"}

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

    def log(self, pod: str) -> str:
        """Return the log of a pod, also of one that is gone."""
        return (self.folder / f"{NAMESPACE}.{pod}.log").read_text(errors="replace")


@contextlib.contextmanager
def standin(folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[StandIn]:
    """Run a stand-in with one node. Its pods' processes end with it.

    :param folder: for logs and working folders.
    :param environment: of its image, where that is to differ from Spark, Java and Python as they are here.
    :raises StackError: it does not come up.
    """
    port = free_port()
    address = f"http://{HOST}:{port}"
    with contextlib.closing(Processes(folder / "logs")) as processes:
        command = [sys.executable, "-m", "devstack.kubernetes", str(port), str(folder)]
        root = str(Path(__file__).parents[1])
        process = processes.start("kubernetes", command, env={"PYTHONPATH": root, **(environment or {})}, folder=folder)
        processes.wait_for("the stand-in for Kubernetes to answer", lambda: _answers(address), START_SECONDS, process)
        yield StandIn(address, process, folder)


def _answers(address: str) -> bool:
    try:
        urllib.request.urlopen(f"{address}/version", timeout=5).close()
    except OSError:
        return False
    return True


def main() -> None:
    """Serve on a port until this process is ended."""
    port, folder = int(sys.argv[1]), Path(sys.argv[2])
    image = {
        "SPARK_HOME": str(bundled_spark()),
        "JAVA": java(),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": HOST,
        # Without it Spark would look for a kubeconfig of whoever runs this.
        "KUBECONFIG": os.devnull,
        **{name: os.environ[name] for name in _OF_IMAGE if name in os.environ},
    }

    async def application() -> web.Application:
        return Server(folder, image).app()

    web.run_app(application(), host=HOST, port=port, print=None)


if __name__ == "__main__":
    main()
