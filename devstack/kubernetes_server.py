"""The API server of the stand-in for Kubernetes (`devstack/kubernetes.py`), over HTTP and WebSocket.

Run it as ``python -m devstack.kubernetes_server PORT FOLDER``.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web

from airflow_stream_provider.clusters.driver_pod import quantity
from devstack.kubernetes import NODE, TOKEN
from devstack.kubernetes_objects import KINDS, Failure, Key, Object, Objects, Watcher
from devstack.ports import HOST
from devstack.process_kubelet import Kubelets
from devstack.spark_image import image_environment

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
        self._away_until = 0.0
        self._watching: list[web.Request] = []

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
        elif what == "crash":
            self.kubelets.crash(name)
        elif what == "back":
            self.kubelets.come_back(name)
        elif what == "node":
            self.kubelets.add_node(name)
        elif what == "lose":
            self.lose = int(name)
        elif what == "away":
            self._go_away(float(name))
        elif what == "deny":
            verb, _, kind = name.partition("-")
            self.denied.add((verb, kind))
        elif what == "allow":
            self.denied.clear()
        return web.json_response({})

    def _go_away(self, seconds: float) -> None:
        """Close every connection, also new ones, for some seconds. The kubelets go on."""
        self._away_until = asyncio.get_running_loop().time() + seconds
        for watch in self._watching:
            if watch.transport:
                watch.transport.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.transport and asyncio.get_running_loop().time() < self._away_until:
            request.transport.close()
            return web.Response(status=503)
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
        self._watching.append(request)
        try:
            if request.headers.get("Upgrade", "").lower() == "websocket":
                return await self._watch_by_websocket(request, watcher)
            stream = web.StreamResponse(headers={"Content-Type": "application/json"})
            await stream.prepare(request)
            while True:
                await stream.write(json.dumps(await watcher.events.get()).encode() + b"\n")
        finally:
            self.objects.watchers.remove(watcher)
            self._watching.remove(request)

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


def main() -> None:
    """Serve on a port until this process is ended."""
    port, folder, image = int(sys.argv[1]), Path(sys.argv[2]), image_environment()

    async def application() -> web.Application:
        return Server(folder, image).app()

    # Those who watch do not go by themselves.
    web.run_app(application(), host=HOST, port=port, print=None, shutdown_timeout=1.0)


if __name__ == "__main__":
    main()
