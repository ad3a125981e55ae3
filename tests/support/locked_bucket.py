"""A bucket of Amazon's with object lock and a default retention, pretended: no server that runs here refuses so."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "locked"
REFUSAL = (
    "<Error><Code>InvalidRequest</Code><Message>Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object "
    "requests with Object Lock parameters</Message></Error>"
)
CHECKSUMS = ("content-md5", "x-amz-checksum-")


class LockedBucket:
    """Stores, lists and returns objects. What comes without a checksum it refuses.

    `is_strict`: it refuses everything that is written, as for another rule.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.is_strict = False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                key = self._key()
                if outer.is_strict or not any(name.lower().startswith(CHECKSUMS) for name in self.headers):
                    self._send(400, REFUSAL.encode())
                elif self.headers["If-None-Match"] and key in outer.objects:
                    self._send(412, b"")
                else:
                    outer.objects[key] = data
                    self._send(200, b"")

            def do_GET(self) -> None:
                query = parse_qs(urlsplit(self.path).query)
                if "list-type" in query:
                    prefix = query.get("prefix", [""])[0]
                    found = "".join(map(listed, sorted(key for key in outer.objects if key.startswith(prefix))))
                    body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>"
                    self._send(200, body.encode())
                elif self._key() in outer.objects:
                    self._send(200, outer.objects[self._key()])
                else:
                    self._send(404, b"")

            def _key(self) -> str:
                return unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}/")

            def _send(self, code: int, body: bytes) -> None:
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("ETag", '"x"')
                self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        def listed(key: str) -> str:
            size = len(self.objects[key])
            facts = f"<LastModified>2024-01-01T00:00:00.000Z</LastModified><ETag>x</ETag><Size>{size}</Size>"
            return f"<Contents><Key>{escape(key)}</Key>{facts}</Contents>"

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def connection(self) -> dict[str, Any]:
        """An Airflow connection to it."""
        extra = {"endpoint_url": f"http://127.0.0.1:{self.server.server_port}", "region_name": "us-east-1"}
        return {"conn_type": "aws", "login": "key", "password": "secret", "extra": extra}


@contextlib.contextmanager
def locked_bucket() -> Iterator[LockedBucket]:
    """An empty one."""
    bucket = LockedBucket()
    thread = threading.Thread(target=bucket.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield bucket
    finally:
        bucket.server.shutdown()
        bucket.server.server_close()
