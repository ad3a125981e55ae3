"""A folder of this machine, told as WebHDFS tells one of HDFS. Where a real NameNode runs, take that."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from airflow_stream_provider.checkpoint.files import RemotePath
from devstack import webhdfs_files
from devstack.webhdfs_files import webhdfs_place

PREFIX = "/webhdfs/v1"


class Patience(tuple[float, float]):
    """Seconds to connect and to wait for an answer, as `requests` takes them apart: ten, but hardly any from one that
    is frozen, so that a busy machine answers in time and no test waits for long."""

    frozen: threading.Event

    def __iter__(self) -> Iterator[float]:
        return iter((10.0, 0.5 if self.frozen.is_set() else 10.0))


class PretendedWebHdfs:
    """Answers for a folder. While `frozen` is set it takes requests, and says nothing.

    `breaks_off`: its DataNode ends in the middle of a file. `wants_kerberos`: nobody has the ticket that it asks for.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.frozen = threading.Event()
        self.goes_on = threading.Event()
        self.denies = self.breaks_off = self.wants_kerberos = False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if outer.frozen.is_set():
                    outer.goes_on.wait()
                parts = urlsplit(self.path)
                if parts.path.startswith("/data"):  # as a DataNode, to which a NameNode redirects
                    data = (outer.folder / parts.path.removeprefix("/data/")).read_bytes()
                    self._send(200, data[: len(data) // 2] if outer.breaks_off else data, length=len(data))
                    return
                op, path = parse_qs(parts.query)["op"][0], parts.path.removeprefix(PREFIX)
                here = outer.folder / path.lstrip("/")
                if outer.denies or outer.wants_kerberos:
                    self._error(401 if outer.wants_kerberos else 403, "AccessControlException")
                elif not here.exists():
                    self._error(404, "FileNotFoundException")
                elif op == "OPEN":
                    self.send_response(307)
                    self.send_header("Location", f"{outer.url}/data{path}")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                elif op == "LISTSTATUS":
                    inside = sorted(here.iterdir()) if here.is_dir() else [here]
                    found = [status(each, each.name if here.is_dir() else "") for each in inside]
                    self._send(200, json.dumps({"FileStatuses": {"FileStatus": found}}).encode())
                else:
                    assert op == "GETFILESTATUS"
                    self._send(200, json.dumps({"FileStatus": status(here, "")}).encode())

            def _error(self, code: int, exception: str) -> None:
                self._send(code, json.dumps({"RemoteException": {"exception": exception, "message": "no"}}).encode())

            def _send(self, code: int, body: bytes, length: int | None = None) -> None:
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body) if length is None else length))
                self.end_headers()
                with contextlib.suppress(OSError):  # who has asked waits no more
                    self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def place(self) -> RemotePath:
        """The root of what it has, to be read."""
        return webhdfs_place("hdfs://namenode:8020", "/", self.url, "airflow")


def status(path: Path, name: str) -> dict[str, Any]:
    """What WebHDFS says of a file or folder, as far as it is read here."""
    found = path.stat()
    kind = "DIRECTORY" if path.is_dir() else "FILE"
    return {"pathSuffix": name, "type": kind, "length": found.st_size, "modificationTime": int(found.st_mtime * 1000)}


@pytest.fixture
def hdfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PretendedWebHdfs]:
    """An empty one, of which nobody waits long for an answer while it is frozen."""
    folder = tmp_path / "hdfs"
    folder.mkdir()
    pretended = PretendedWebHdfs(folder)
    patience = Patience()
    patience.frozen = pretended.frozen
    monkeypatch.setattr(webhdfs_files, "TIMEOUT", patience)
    thread = threading.Thread(target=pretended.server.serve_forever, daemon=True)
    thread.start()
    yield pretended
    pretended.goes_on.set()
    pretended.server.shutdown()
    pretended.server.server_close()
