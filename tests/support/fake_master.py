"""The master of a standalone cluster and its workers, over real HTTP: they say what a test wants them to say."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from airflow_stream_provider.clusters import ClusterConnection, Remains, Whose, open_cluster

DEPLOYMENT = "orders-2-1a2b"
WHOSE = Whose(DEPLOYMENT, "5e6f7a8b" * 4)
APP = {"id": "app-1", "name": f"orders 2 [{DEPLOYMENT}] 5e6f7a8b", "state": "RUNNING", "cores": 2}


class Master:
    """Serves the pages of a master, its REST API, and those of a worker. `wants`: the header that it requires.

    `pages`: what is answered to a path and its query, by a server of either; those of the others are not there.
    """

    def __init__(self) -> None:
        self.state: dict[str, Any] = {"status": "ALIVE", "workers": [], "activedrivers": [], "activeapps": []}
        self.executors: list[dict[str, Any]] = []
        self.driver_log = ""
        self.logs: dict[str, str] = {}
        self.pages: dict[str, str] = {}
        self.wants = ""
        self.asked: list[tuple[str, str]] = []
        self.silent = threading.Event()
        self.hang = False
        master = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                header = self.headers.get("Authorization", "")
                master.asked.append((f"{self.command} {self.path}", header))
                page = master.pages.get(self.path)
                if page is not None or self.path.startswith(("/worker", "/environment", "/app/", "/api/")):
                    self.send_error(404) if page is None else self.send(page)
                elif self.server is master.worker:
                    if master.hang:
                        master.silent.wait()
                    if self.path.startswith("/log/"):
                        self.send(master.log_page(parse_qs(urlsplit(self.path).query)))
                    else:
                        self.answer({"executors": master.executors})
                elif header != master.wants:
                    self.send_error(403)
                elif self.path.startswith("/json"):
                    self.answer(master.state)
                else:
                    self.answer({"success": True, "submissionId": "driver-1", "driverState": "RUNNING"})

            do_POST = do_GET

            def answer(self, body: dict[str, Any]) -> None:
                self.send(json.dumps(body))

            def send(self, text: str) -> None:
                data = text.encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.worker = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        for server in (self.server, self.worker):
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def connection(self, **fields: Any) -> ClusterConnection:
        extra = {"master_ui": self.url, "rest_url": self.url, **fields.pop("extra", {})}
        return ClusterConnection("spark://127.0.0.1", extra=extra, **fields)

    def add_worker(self, id: str, url: str = "", state: str = "ALIVE", coresused: int = 1) -> None:
        url = url or f"http://127.0.0.1:{self.worker.server_address[1]}"
        worker = {"id": id, "host": f"{id}.example", "state": state, "webuiaddress": url, "coresused": coresused}
        self.state["workers"].append(worker)

    def log_page(self, query: dict[str, list[str]]) -> str:
        """Return a part of a driver's log as Spark's LogPage does: without an offset its end, which is in `logs`."""
        if "offset" in query:
            return f"==== Bytes 0-{len(self.driver_log)} ====\n{self.driver_log}"
        text = self.logs[query["logType"][0]]
        begin = max(0, len(text) - int(query["byteLength"][0]))
        return f"==== Bytes {begin}-{len(text)} of {len(text)} of /work/{query['driverId'][0]} ====\n{text[begin:]}"

    def driver_was(self, state: str, worker: str) -> None:
        self.state["completeddrivers"] = [{"id": "driver-1", "state": state, "worker": worker}]

    def remains(self, *applications: str) -> Remains:
        return open_cluster(self.connection()).remains("driver-1", WHOSE, applications)

    def close(self) -> None:
        self.silent.set()
        for server in (self.server, self.worker):
            server.shutdown()
            server.server_close()
