"""Run an S3 server on this machine: moto, or s3proxy, whose conditional writes are atomic."""

from __future__ import annotations

import contextlib
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devstack.jars import fetch
from devstack.jars import s3proxy as s3proxy_jars
from devstack.ports import HOST, free_port
from devstack.processes import Process, Processes, java
from devstack.spark import DAEMON_JVM

START_SECONDS = 180.0
BUCKET = "streams"
# Not secret: the server is on the loopback address, and ends with the test.
LOGIN, PASSWORD = "stream-user", "stream-password"


@dataclass(frozen=True)
class S3Server:
    """A running server with an empty bucket.

    :param endpoint: its address, such as ``http://127.0.0.1:20001``.
    :param process: the server; None: it is none of ours.
    :param objects: the folder in which it keeps the bucket's objects, each as a file; None: it is in no folder here.
    """

    endpoint: str
    process: Process | None
    bucket: str = BUCKET
    login: str = LOGIN
    password: str = field(default=PASSWORD, repr=False)
    region: str = "us-east-1"
    objects: Path | None = None

    @property
    def connection(self) -> dict[str, Any]:
        """An Airflow connection of type ``aws`` to this server."""
        extra = {"endpoint_url": self.endpoint, "region_name": self.region}
        return {"conn_type": "aws", "login": self.login, "password": self.password, "extra": extra}

    @property
    def core_site(self) -> dict[str, str]:
        """Hadoop's settings, with which a cluster reaches this server as ``s3a://``."""
        return {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.endpoint.region": self.region,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": self.login,
            "fs.s3a.secret.key": self.password,
        }


@contextlib.contextmanager
def moto(folder: Path) -> Iterator[S3Server]:
    """Run moto's S3 server. It knows every user, and keeps all objects in its memory.

    :param folder: for its log.
    :raises StackError: it does not come up.
    """
    port = free_port()
    endpoint = f"http://{HOST}:{port}"
    code = "import sys; from moto.server import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "-H", HOST, "-p", str(port)]
    with contextlib.closing(Processes(folder / "logs")) as processes:
        process = processes.start("moto", command, env={}, folder=folder)
        processes.wait_for("moto to answer", lambda: _answers(endpoint), START_SECONDS, process)
        request = urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")
        urllib.request.urlopen(request, timeout=60).close()
        yield S3Server(endpoint, process)


@contextlib.contextmanager
def s3proxy(folder: Path) -> Iterator[S3Server]:
    """Run s3proxy on a folder. It asks for `LOGIN` and `PASSWORD`.

    :param folder: for its objects and its log.
    :raises StackError: Java or its jar is missing, or it does not come up.
    """
    endpoint = f"http://{HOST}:{free_port()}"
    (folder / "objects" / BUCKET).mkdir(parents=True)
    settings = {
        "s3proxy.endpoint": endpoint,
        "s3proxy.authorization": "aws-v2-or-v4",
        "s3proxy.identity": LOGIN,
        "s3proxy.credential": PASSWORD,
        "jclouds.provider": "filesystem-nio2",
        "jclouds.filesystem.basedir": str(folder / "objects"),
    }
    properties = folder / "s3proxy.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    jars = fetch(s3proxy_jars())
    command = [java(), *DAEMON_JVM, "-cp", f"{jars}/*", "org.gaul.s3proxy.Main", "--properties", str(properties)]
    with contextlib.closing(Processes(folder / "logs")) as processes:
        process = processes.start("s3proxy", command, env={}, folder=folder)
        processes.wait_for("s3proxy to answer", lambda: _answers(endpoint), START_SECONDS, process)
        yield S3Server(endpoint, process, objects=folder / "objects" / BUCKET)


def _answers(endpoint: str) -> bool:
    try:
        urllib.request.urlopen(endpoint, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True
