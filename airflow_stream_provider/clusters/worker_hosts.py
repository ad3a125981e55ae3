"""Which hosts a worker's pages may be on.

A worker tells the master itself where its pages are, and the master believes it. Without a check, a registered worker
can make Airflow send requests to any host and port that Airflow reaches.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from airflow_stream_provider.lifecycle.errors import ClusterError, SpecError

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
# The networks in which workers are expected to be when the connection says nothing: those of the masters' addresses.
_PREFIX = {4: 16, 6: 64}


class WorkerHosts:
    """The hosts that are allowed.

    :param allowed: names, ``*.domain``, addresses and networks (``10.1.0.0/16``). Empty: what is in one network with
        a master: the first 16 bits of an IPv4 address, 64 of an IPv6 one.
    :param masters: host names of the masters; always allowed.
    :raises SpecError: an entry is none of these.
    """

    def __init__(self, allowed: Iterable[str], masters: Iterable[str]) -> None:
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        self._names: list[str] = []
        for entry in allowed:
            self._add(entry.strip().lower())
        self._masters = tuple(host.lower() for host in masters)
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
