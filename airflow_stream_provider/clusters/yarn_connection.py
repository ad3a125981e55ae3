"""Read what YARN needs from its Airflow connection."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from airflow_stream_provider.clusters.connection import ClusterConnection, is_web_address, refused
from airflow_stream_provider.clusters.kerberos import KerberosLogin

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
class YarnSettings:
    """The settings of an Airflow connection of type ``spark`` with the host ``yarn``.

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

    @property
    def hosts(self) -> tuple[str, ...]:
        """The host names of the ResourceManagers."""
        return tuple(dict.fromkeys(urlsplit(url).hostname or "" for url in self.addresses))


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
