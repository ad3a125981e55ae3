"""Read the addresses of a cluster of Spark's or YARN's from its Airflow connection."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from airflow_stream_provider.lifecycle.errors import SpecError

MASTER_PORT = 7077
REST_PORT = 6066
UI_PORT = 8080
KUBERNETES = "k8s://"
"""The beginning of the host of a Kubernetes cluster."""
_LOCAL = re.compile(r"local(\[(\d+|\*)\])?")


@dataclass(frozen=True)
class Masters:
    """The addresses of a standalone cluster's masters; there are several with high availability.

    :param url: the master URL for Spark, such as ``spark://h1:7077,h2:7077``.
    :param rest: the REST submission API of each master, such as ``http://h1:6066``.
    :param ui: the web UI of each master, in the same order.
    :param authorization: the header with which the masters are asked; empty: none.
    :param worker_hosts: see `WorkerHosts`.
    """

    url: str
    rest: tuple[str, ...]
    ui: tuple[str, ...]
    authorization: str = field(default="", repr=False)
    worker_hosts: tuple[str, ...] = ()


def host_of(conn_type: str, host: str) -> str:
    """Return the host that a connection of type ``spark`` has for the same cluster.

    The types ``spark_yarn`` and ``spark_kubernetes``, whose forms ask for no more than is needed, say what in the host
    of every other type says: that drivers run on YARN or on Kubernetes.
    """
    if conn_type == "spark_yarn":
        return "yarn"
    if conn_type == "spark_kubernetes" and not host.strip().startswith(KUBERNETES):
        return KUBERNETES + host.strip()
    return host


@dataclass(frozen=True)
class ClusterConnection:
    """The fields of an Airflow connection of a cluster that are used here; of its type, see `host_of`.

    :param host: ``spark://host``, ``spark://h1:7077,h2:7077`` (high availability), ``yarn``, ``local[N]``, or
        ``k8s://https://host:port``, whose fields are in `kubernetes_connection`.
    :param port: port of the masters whose address has none; default 7077.
    :param extra: for YARN see `YarnSettings`. For masters: ``rest_port`` (default 6066) or ``rest_url``, and
        ``master_ui`` (default ``http://<host>:8080``). With several masters, separate their URLs by commas, in the
        order of the hosts. ``worker_hosts``: hosts and networks of the workers, separated by commas; default: the
        networks of the masters.
    :param login: for basic authentication with the masters; empty: the password is a bearer token.
    :param password: sent to the masters only, as login and password or as a bearer token.
    :param kubernetes: extra of the Kubernetes connection that the extra names; None: it names none.
    """

    host: str
    port: int | None = None
    # The extra may hold passwords, too, and a dataclass shows its fields.
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    login: str = ""
    password: str = field(default="", repr=False)
    kubernetes: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def is_kubernetes(self) -> bool:
        """Whether drivers are pods of a Kubernetes cluster."""
        return self.host.strip().startswith(KUBERNETES)

    @property
    def is_local(self) -> bool:
        """Whether drivers run on this machine."""
        return self.host.strip().startswith("local")

    @property
    def is_yarn(self) -> bool:
        """Whether drivers run on YARN; see `YarnSettings`."""
        return self.host.strip().lower() == "yarn"

    @property
    def local_master(self) -> str:
        """Spark's master string for this machine, such as ``local[2]``.

        :raises SpecError: the host is not of the form ``local``, ``local[N]`` or ``local[*]``.
        """
        master = self.host.strip()
        if not _LOCAL.fullmatch(master):
            raise refused(f"{without_user(master)!r} is not a local master", "Write local[2] or local[*].")
        return master

    @property
    def masters(self) -> Masters:
        """The addresses of the standalone cluster's masters.

        :raises SpecError: the host, the port or the extra is not valid.
        """
        hosts = self._hosts()
        rest_port = self._extra_port("rest_port", REST_PORT)
        return Masters(
            url="spark://" + ",".join(f"{host}:{port}" for host, port in hosts),
            rest=self._urls("rest_url", [f"http://{host}:{rest_port}" for host, _ in hosts]),
            ui=self._urls("master_ui", [f"http://{host}:{UI_PORT}" for host, _ in hosts]),
            authorization=self._authorization(),
            worker_hosts=tuple(filter(None, (h.strip() for h in str(self.extra.get("worker_hosts") or "").split(",")))),
        )

    def _authorization(self) -> str:
        if not self.password:
            return ""
        if self.login:
            return "Basic " + base64.b64encode(f"{self.login}:{self.password}".encode()).decode()
        if not re.fullmatch(r"[\w.~+/=-]+", self.password, re.ASCII):
            raise refused("its password is no bearer token", "Give the login, too, for basic authentication.")
        return f"Bearer {self.password}"

    def _hosts(self) -> list[tuple[str, int]]:
        scheme, separator, rest = self.host.strip().rpartition("://")
        if (separator and scheme != "spark") or not rest:
            raise refused(
                f"{without_user(self.host)!r} is not a supported cluster",
                "Write spark://HOST, yarn, k8s://HOST or local[N].",
            )
        hosts = []
        for part in rest.rstrip("/").split(","):
            try:
                split = urlsplit(f"//{part.strip()}")
                host, port = split.hostname, split.port
            except ValueError:
                host, port = None, None
            if not host or split.path or split.username:
                raise refused(
                    f"{without_user(part)!r} is not HOST or HOST:PORT",
                    "Write spark://HOST:PORT, and separate several masters by commas.",
                )
            hosts.append((f"[{host}]" if ":" in host else host, port or self.port or MASTER_PORT))
        return hosts

    def _extra_port(self, key: str, default: int) -> int:
        value = self.extra.get(key, default)
        if not str(value).isdigit() or not 0 < int(value) < 65536:
            raise refused(f"{key} in the extra is {value!r}", "Write a port number.")
        return int(value)

    def _urls(self, key: str, default: list[str]) -> tuple[str, ...]:
        text = str(self.extra.get(key) or ",".join(default))
        urls = tuple(url.strip().rstrip("/") for url in text.split(","))
        for url in urls:
            if "@" in url:
                raise refused(
                    f"{key} in the extra has a user or a password",
                    "Write http://HOST:PORT, and both in the connection's login and password.",
                )
            if not is_web_address(url):
                raise refused(f"{key} in the extra has {url!r}", "Write http://HOST:PORT.")
        if len(urls) != len(default):
            raise refused(
                f"{key} in the extra has {len(urls)} URLs for {len(default)} masters", "Write one URL for each master."
            )
        return urls


def without_user(address: str) -> str:
    """Return what may be shown of an address: what stands before the last @ may hold a password."""
    return address.rpartition("@")[2]


def is_web_address(url: str) -> bool:
    """Return whether a text is an http or https URL with a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def refused(found: str, next_step: str) -> SpecError:
    """Return the error about a connection."""
    return SpecError(f"The cluster's Airflow connection is not valid: {found}.", next_step=next_step)


WEB_PORT = 8088
# As the Spark provider's connection has it, for its own tracking of applications.
ADDRESS = "yarn_resourcemanager_webapp_address"
SUBMIT_PROGRAMS = ("spark-submit", "spark2-submit", "spark3-submit")
# Safe in a shell and in a URL.
_PATH = re.compile(r"(/[\w.+@-]+)+/?", re.ASCII)
_PROGRAM = re.compile(rf"{_PATH.pattern}|[\w.+-]+", re.ASCII)
_QUEUE = re.compile(r"[\w.-]+", re.ASCII)
_USER = re.compile(r"[\w.@/-]+", re.ASCII)
_PRINCIPAL = re.compile(r"[\w.-]+(/[\w.-]+)?(@[\w.-]+)?", re.ASCII)
# A keytab begins with 5 and the version of its format, which is 2 since 1999.
_KEYTAB = b"\x05\x02"


@dataclass(frozen=True)
class KerberosLogin:
    """As whom servers are asked.

    :param principal: such as ``streams@EXAMPLE.COM``; without a realm it is in this machine's default one.
    :param keytab: content of a keytab with its key.
    """

    principal: str
    keytab: bytes = field(repr=False)

    @property
    def user(self) -> str:
        """The first part of its name, which Hadoop takes for the user's unless it is told otherwise."""
        return self.principal.partition("@")[0].partition("/")[0]


@dataclass(frozen=True)
class YarnSettings:
    """The settings of an Airflow connection whose host is ``yarn``.

    :param addresses: the web address of each ResourceManager; there are several with high availability.
    :param user: the connection's login: as whom drivers are submitted. With Kerberos the principal's user by default.
    :param spark_home: where Spark is, on every node.
    :param queue: for drivers and executors.
    :param python: of driver and executors, on every node.
    :param node_hosts: hosts and networks of the NodeManagers; empty: the networks of the ResourceManagers.
    :param kerberos: as whom YARN is asked; None: it believes everybody's name.
    :param spark_submit: name of the program that submits drivers, which is on this machine's PATH; with Kerberos only.
    """

    addresses: tuple[str, ...]
    user: str
    spark_home: str
    queue: str = "default"
    python: str = "python3"
    node_hosts: tuple[str, ...] = ()
    kerberos: KerberosLogin | None = None
    spark_submit: str = "spark-submit"

    @classmethod
    def of(cls, connection: ClusterConnection) -> YarnSettings:
        """Read a connection.

        :raises SpecError: its login or its extra is not valid.
        """
        extra = {key: str(value or "").strip() for key, value in connection.extra.items()}
        kerberos = _login(extra)
        user = connection.login.strip() or (kerberos.user if kerberos else "")
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
            kerberos=kerberos,
            spark_submit=_submit_program(extra),
        )


def _login(extra: dict[str, str]) -> KerberosLogin | None:
    """Return the login in the fields that the Spark provider's connection has for Kerberos; None: they are empty."""
    principal, keytab = extra.get("principal", ""), "".join(extra.get("keytab", "").split())
    if not principal and not keytab:
        return None
    if not keytab:
        raise refused("it has a principal for Kerberos, and no keytab", "Write the keytab's content in base64, too.")
    if not principal:
        raise refused("it has a keytab for Kerberos, and no principal", "Write whose key is in the keytab, too.")
    if not _PRINCIPAL.fullmatch(principal):
        raise refused(f"principal in the extra is {principal!r}", "Write USER@REALM or USER/HOST@REALM.")
    try:
        content = base64.b64decode(keytab, validate=True)
    except binascii.Error:
        content = b""
    if not content.startswith(_KEYTAB):  # what it is is not quoted
        raise refused("keytab in the extra is no keytab in base64", "Write what `base64 FILE` says of a keytab.")
    return KerberosLogin(principal, content)


def _submit_program(extra: dict[str, str]) -> str:
    """Return the name that the Spark provider's own field gives, of those that its hook runs."""
    name = extra.get("spark-binary") or SUBMIT_PROGRAMS[0]
    if name not in SUBMIT_PROGRAMS:
        raise refused(f"spark-binary in the extra is {name!r}", f"Write one of {', '.join(SUBMIT_PROGRAMS)}.")
    return name


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
