"""HTTP requests that end: one deadline for the whole request, and a limit to the answer's size.

The time-outs of `requests` begin anew with every byte, and it follows redirects to wherever they lead. A cluster's
worker is not trusted that far: it says itself where its pages are. Proxies of the environment are not used.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from airflow_stream_provider.control.bounded import start
from airflow_stream_provider.lifecycle.errors import ClusterError

_CHUNK = 64 * 1024


class Unanswered(ClusterError):
    """There is no answer that can be used.

    `reason` completes a sentence that begins with the address. `sent`: False if the request certainly was not.
    """

    def __init__(self, url: str, reason: str, *, sent: bool = True, next_step: str = "") -> None:
        self.reason = reason
        self.sent = sent
        super().__init__(f"{url} {reason}.", next_step=next_step)


@dataclass(frozen=True)
class Answer:
    """An answer that came in time and within its limit."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def clock_ahead(self) -> float:
        """How far the clock of who answered is ahead of ours, in seconds; exact to one second, 0 if it does not say."""
        date = self.headers.get("date")
        return parsedate_to_datetime(date).timestamp() - time.time() if date else 0.0

    def text(self) -> str:
        """The body as text.

        :raises Unanswered: its status is not 200; redirects are not followed.
        """
        if self.status != http.HTTPStatus.OK:
            raise Unanswered(self.url, f"answered HTTP {self.status}")
        return self.body.decode(errors="replace")

    def json(self, *, any_status: bool = False) -> dict[str, Any]:
        """The body as a JSON object.

        :param any_status: whether an error's status is fine, too.
        :raises Unanswered: its status is not 200, or it is not an object.
        """
        try:
            found = json.loads(self.body if any_status else self.text())
        except (ValueError, RecursionError):
            raise Unanswered(self.url, "did not answer with JSON") from None
        if not isinstance(found, dict):
            raise Unanswered(self.url, "did not answer with a JSON object")
        return found


def ask(
    method: str,
    url: str,
    *,
    seconds: float,
    limit: int,
    address: str = "",
    authorization: str = "",
    body: Mapping[str, Any] | None = None,
) -> Answer:
    """Send one request and return the answer, whatever its status.

    :param url: without userinfo.
    :param seconds: for everything: connecting, sending, and the last byte of the answer. Only the look-up of a host
        name can take longer, as long as this machine's resolver allows.
    :param limit: bytes that the body may have.
    :param address: IP address to connect to, when it has been looked up already.
    :param authorization: value of the header of that name; empty: none is sent.
    :param body: sent as JSON.
    :raises Unanswered: no answer within the time and the limit.
    """
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    host, deadline = parts.hostname or "", time.monotonic() + seconds
    try:
        plain = socket.create_connection((address or host, parts.port or (443 if secure else 80)), seconds)
    except OSError as error:
        raise Unanswered(
            url, _late(seconds) if isinstance(error, TimeoutError) else "cannot be reached", sent=False
        ) from None
    # A copy of the socket, because TLS takes the first one over. Shutting it down ends whatever waits for a byte.
    over, done = threading.Event(), threading.Event()
    with plain.dup() as copy:

        def end_in_time() -> None:
            if not done.wait(deadline - time.monotonic()):
                over.set()
                with suppress(OSError):
                    copy.shutdown(socket.SHUT_RDWR)

        guard = start(end_in_time, "http-deadline")
        connection = http.client.HTTPConnection(host, parts.port)
        sent = False
        try:
            if guard.done():
                guard.result()  # raises that there is no thread: without the guard the request may never end
            connection.sock = ssl.create_default_context().wrap_socket(plain, server_hostname=host) if secure else plain
            headers = {"Accept": "application/json, text/plain", "Connection": "close"}
            if authorization:
                headers["Authorization"] = authorization
            if body is not None:
                headers["Content-Type"] = "application/json;charset=UTF-8"
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            sent = True
            connection.request(method, path, None if body is None else json.dumps(body).encode(), headers)
            response = connection.getresponse()
            content = _read(response, limit)
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = _late(seconds) if over.is_set() or isinstance(error, TimeoutError) else "did not answer with HTTP"
            # Not chained: an error of the client may quote what was sent.
            raise Unanswered(url, reason, sent=sent) from None
        finally:
            done.set()
            connection.close()
            plain.close()
    # A body without a length ends where the connection ends, so one that was cut off looks whole.
    if over.is_set():
        raise Unanswered(url, _late(seconds))
    if content is None:
        raise Unanswered(url, f"answered with more than {limit} bytes")
    return Answer(url, response.status, {key.lower(): value for key, value in response.getheaders()}, content)


def _read(response: http.client.HTTPResponse, limit: int) -> bytes | None:
    """Return the body, or None if it is larger than the limit."""
    found = bytearray()
    while chunk := response.read1(_CHUNK):
        found += chunk
        if len(found) > limit:
            return None
    if response.length:  # less came than the header promised
        raise http.client.IncompleteRead(bytes(found), response.length)
    return bytes(found)


def _late(seconds: float) -> str:
    return f"did not answer within {seconds:.0f} s"
