"""HTTP requests that end: one deadline for all of a request, and a limit to the answer's size; and the allowed hosts.

The time-outs of `requests` begin anew with every byte, and it follows redirects to wherever they lead. Proxies of the
environment are not used.

A worker tells the master itself where its pages are, and the master believes it. Without a check, a registered worker
can make Airflow send requests to any host and port that Airflow reaches.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlsplit

from airflow_stream_provider.control.bounded import start
from airflow_stream_provider.lifecycle.errors import ClusterError, SpecError

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


def ui_settings(get: Callable[[str], Answer], application: str) -> tuple[str, dict[str, str]]:
    """Return the version of Spark that an application runs on, and its settings, on which Spark hides secrets.

    :param get: returns what its Spark UI answers to a path.
    :raises Unanswered: it does not answer, or it is no Spark UI.
    """
    answer = get(f"api/v1/applications/{quote(application, safe='')}/environment")
    try:
        return str(get("api/v1/version").json()["spark"]), {str(n): str(v) for n, v in answer.json()["sparkProperties"]}
    except (KeyError, TypeError, ValueError):
        raise Unanswered(answer.url, "is no Spark UI") from None


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


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
# The networks in which workers are expected to be when the connection says nothing: those of the masters' addresses.
_PREFIX = {4: 16, 6: 64}


class WorkerHosts:
    """The hosts that are allowed.

    :param allowed: names, ``*.domain``, addresses and networks (``10.1.0.0/16``). Empty: what is in one network with
        a master: the first 16 bits of an IPv4 address, 64 of an IPv6 one.
    :param masters: URLs of the masters, whose hosts are always allowed.
    :raises SpecError: an entry is none of these.
    """

    def __init__(self, allowed: Iterable[str], masters: Iterable[str]) -> None:
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        self._names: list[str] = []
        for entry in allowed:
            self._add(entry.strip().lower())
        self._masters = {urlsplit(url).hostname or "" for url in masters}
        self._near = not (self._networks or self._names)

    def address(self, url: str) -> str:
        """Return the IP address to connect to for a worker's page.

        The request goes to this very address: a second look-up of the name could give another one.

        :raises ClusterError: the address is not that of an allowed host, or cannot be found out.
        """
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").lower(), parts.port
        except ValueError:
            host, port = "", None
        if not host or parts.scheme not in ("http", "https") or parts.username or parts.path.strip("/") or parts.query:
            raise ClusterError(f"A worker's page cannot be at {url!r}.", next_step="Look at the worker: is it yours?")
        found = _resolve(host, port)
        if self._named(host) or (found and all(self._inside(address) for address in found)):
            if found:
                return str(found[0])
            raise ClusterError(f"The worker's host {host} is not known here.", next_step="Correct this machine's DNS.")
        raise ClusterError(
            f"A worker says that its page is on {host}, which is not in the masters' network and not in "
            "`worker_hosts`; it is not asked.",
            next_step="If the worker is yours, add its host or network to `worker_hosts` in the extra of the cluster's "
            "connection. If not, close the master's port to it.",
            host=host,
        )

    def _add(self, entry: str) -> None:
        try:
            self._networks.append(ipaddress.ip_network(entry, strict=False))
        except ValueError:
            if not entry or any(sign in entry for sign in "/:@ ") or "*" in entry.removeprefix("*."):
                raise SpecError(
                    f"The cluster's Airflow connection is not valid: worker_hosts in the extra has {entry!r}.",
                    next_step="Write names, *.domain, addresses or networks such as 10.1.0.0/16, separated by commas.",
                ) from None
            self._names.append(entry)

    def _named(self, host: str) -> bool:
        return host in self._masters or any(
            host.endswith(name[1:]) if name.startswith("*.") else host == name for name in self._names
        )

    def _inside(self, address: _Address) -> bool:
        if any(address in network for network in self._networks):
            return True
        if not self._near:
            return False
        masters = [found for host in self._masters for found in _resolve(host, None)]
        return any(
            address.version == master.version
            and address in ipaddress.ip_network(f"{master}/{_PREFIX[master.version]}", strict=False)
            for master in masters
        )


def _resolve(host: str, port: int | None) -> list[_Address]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(ipaddress.ip_address(str(each[4][0]).partition("%")[0]) for each in found))
