"""The Airflow connection of a cluster, read into addresses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from airflow_stream_provider.lifecycle.errors import SpecError

MASTER_PORT = 7077
REST_PORT = 6066
UI_PORT = 8080
_LOCAL = re.compile(r"local(\[(\d+|\*)\])?")


@dataclass(frozen=True)
class Masters:
    """The masters of one standalone cluster (several with high availability) and where each answers."""

    url: str  # what Spark is given: spark://h1:7077,h2:7077
    rest: tuple[str, ...]
    ui: tuple[str, ...]


@dataclass(frozen=True)
class ClusterConnection:
    """The fields of an Airflow connection of type `spark` that we use.

    :param host: ``spark://host``, ``spark://h1:7077,h2:7077`` (high availability), or ``local[N]``.
    :param port: of a master whose address has none; default 7077.
    :param extra: ``rest_port`` (6066) or ``rest_url``, ``master_ui`` (``http://<host>:8080``); URLs of several masters
        are separated by commas, in the order of the hosts.
    """

    host: str
    port: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether drivers run on this machine."""
        return self.host.strip().startswith("local")

    @property
    def local_master(self) -> str:
        """Return Spark's master string for this machine; raise SpecError when there is no such form."""
        master = self.host.strip()
        if not _LOCAL.fullmatch(master):
            raise _refused(f"{master!r} is not a local master", "Write local[2] or local[*].")
        return master

    @property
    def masters(self) -> Masters:
        """Return the addresses of a standalone cluster; raise SpecError when they cannot be read."""
        hosts = self._hosts()
        rest_port = self._extra_port("rest_port", REST_PORT)
        return Masters(
            url="spark://" + ",".join(f"{host}:{port}" for host, port in hosts),
            rest=self._urls("rest_url", [f"http://{host}:{rest_port}" for host, _ in hosts]),
            ui=self._urls("master_ui", [f"http://{host}:{UI_PORT}" for host, _ in hosts]),
        )

    def _hosts(self) -> list[tuple[str, int]]:
        scheme, separator, rest = self.host.strip().rpartition("://")
        if (separator and scheme != "spark") or rest in ("", "yarn"):
            raise _refused(f"{self.host!r} is not a cluster this provider knows", "Write spark://HOST or local[N].")
        hosts = []
        for part in rest.rstrip("/").split(","):
            try:
                split = urlsplit(f"//{part.strip()}")
                host, port = split.hostname, split.port
            except ValueError:
                host, port = None, None
            if not host or split.path or split.username:
                shown = part.rpartition("@")[2]  # before it could stand a password
                raise _refused(f"{shown!r} is not HOST or HOST:PORT", "Write spark://HOST:PORT, several with commas.")
            hosts.append((f"[{host}]" if ":" in host else host, port or self.port or MASTER_PORT))
        return hosts

    def _extra_port(self, key: str, default: int) -> int:
        value = self.extra.get(key, default)
        if not str(value).isdigit() or not 0 < int(value) < 65536:
            raise _refused(f"{key} in the extra is {value!r}", "Write a port number.")
        return int(value)

    def _urls(self, key: str, default: list[str]) -> tuple[str, ...]:
        text = str(self.extra.get(key) or ",".join(default))
        urls = tuple(url.strip().rstrip("/") for url in text.split(","))
        for url in urls:
            if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
                raise _refused(f"{key} in the extra has {url!r}", "Write http://HOST:PORT.")
        if len(urls) != len(default):
            raise _refused(f"{key} in the extra has {len(urls)} URLs for {len(default)} masters", "Name one for each.")
        return urls


def _refused(found: str, next_step: str) -> SpecError:
    return SpecError(f"The cluster's connection cannot be used: {found}.", next_step=next_step)
