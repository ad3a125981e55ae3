"""Read what YARN needs from its Airflow connection."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from airflow_stream_provider.clusters.connection import ClusterConnection, is_web_address, refused

WEB_PORT = 8088
# As the Spark provider's connection has it, for its own tracking of applications.
ADDRESS = "yarn_resourcemanager_webapp_address"
# Safe in a shell and in a URL.
_PATH = re.compile(r"(/[\w.+@-]+)+/?", re.ASCII)
_PROGRAM = re.compile(rf"{_PATH.pattern}|[\w.+-]+", re.ASCII)
_QUEUE = re.compile(r"[\w.-]+", re.ASCII)
_USER = re.compile(r"[\w.@/-]+", re.ASCII)


@dataclass(frozen=True)
class YarnSettings:
    """What an Airflow connection of type ``spark`` with the host ``yarn`` says.

    :param addresses: the web address of each ResourceManager; there are several with high availability.
    :param user: the connection's login: as whom drivers are submitted.
    :param spark_home: where Spark is, on every node.
    :param queue: for drivers and executors.
    :param python: of driver and executors, on every node.
    :param node_hosts: hosts and networks of the NodeManagers; empty: the networks of the ResourceManagers.
    """

    addresses: tuple[str, ...]
    user: str
    spark_home: str
    queue: str = "default"
    python: str = "python3"
    node_hosts: tuple[str, ...] = ()

    @classmethod
    def of(cls, connection: ClusterConnection) -> YarnSettings:
        """Read a connection.

        :raises SpecError: its login or its extra is not valid, or it asks for Kerberos.
        """
        extra = {key: str(value or "").strip() for key, value in connection.extra.items()}
        if extra.get("principal") or extra.get("keytab"):
            raise refused(
                "principal and keytab in the extra ask for Kerberos, which is not supported on YARN yet",
                "Use a cluster without Kerberos, or remove both.",
            )
        user = connection.login.strip()
        if not _USER.fullmatch(user):
            raise refused(f"its login {user!r} is not a user of YARN", "Write the user as whom drivers are to run.")
        home = _fits(extra, "spark_home", "", _PATH, "Write the folder of Spark on the nodes, such as /opt/spark.")
        return cls(
            addresses=tuple(_address(part.strip()) for part in extra.get(ADDRESS, "").split(",")),
            user=user,
            spark_home=home.rstrip("/"),
            queue=_fits(extra, "queue", "default", _QUEUE, "Write the name of a queue, such as default or root.a.b."),
            python=_fits(extra, "python", "python3", _PROGRAM, "Write its path on the nodes, or its name."),
            node_hosts=tuple(filter(None, (host.strip() for host in extra.get("worker_hosts", "").split(",")))),
        )

    @property
    def hosts(self) -> tuple[str, ...]:
        """The host names of the ResourceManagers."""
        return tuple(dict.fromkeys(urlsplit(url).hostname or "" for url in self.addresses))


def _fits(extra: dict[str, str], key: str, default: str, pattern: re.Pattern[str], next_step: str) -> str:
    value = extra.get(key) or default
    if not pattern.fullmatch(value):
        raise refused(f"{key} in the extra is {value!r}", next_step)
    return value


def _address(text: str) -> str:
    url = (text if "://" in text else f"http://{text}").rstrip("/")
    if "@" in url:
        raise refused(f"{ADDRESS} in the extra has a user or a password", "Write http://HOST:PORT, and both elsewhere.")
    if not text or not is_web_address(url) or urlsplit(url).path or urlsplit(url).query:
        raise refused(
            f"{ADDRESS} in the extra has {text!r}",
            f"Write http://HOST:{WEB_PORT}, and separate several ResourceManagers by commas.",
        )
    return url if urlsplit(url).port else f"{url}:{WEB_PORT}"
