"""The tests' client of Airflow's API, before a server that gives no answer for a while."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests

from devstack import airflow_api
from devstack.airflow_api import AirflowApi

Asked = list[tuple[str, str]]


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[AirflowApi, Asked]]:
    """A server that answers nothing when it is asked it for the first time, and what it was asked."""
    asked: Asked = []
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append((self.command, self.path))
            if asked.count((self.command, self.path)) == 1:
                over.wait(600)
                return
            body = json.dumps({"access_token": "x", "dag_run_id": "r"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = answer

        def log_message(self, *_: object) -> None:
            return

    for limit in ("TIMEOUT", "LONG_TIMEOUT"):
        monkeypatch.setattr(airflow_api, limit, 1.0)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield AirflowApi(f"http://127.0.0.1:{server.server_port}", "admin", "x"), asked
        finally:
            over.set()
            server.shutdown()
            thread.join()


def test_it_asks_again_for_what_said_twice_is_the_same(busy: tuple[AirflowApi, Asked]) -> None:
    api, asked = busy
    assert api.call("GET", "dags")["dag_run_id"] == "r"
    api.unpause("orders")
    assert {("POST", "/auth/token"), ("GET", "/api/v2/dags"), ("PATCH", "/api/v2/dags/orders")} == set(asked)
    assert all(asked.count(each) > 1 for each in asked)


def test_it_triggers_no_run_twice(busy: tuple[AirflowApi, Asked]) -> None:
    api, asked = busy
    with pytest.raises(requests.Timeout):
        api.trigger("orders")
    assert asked.count(("POST", "/api/v2/dags/orders/dagRuns")) == 1
