"""Releases on HDFS, over WebHDFS, which needs no Hadoop on Airflow's machines."""

from __future__ import annotations

import contextlib
import errno
import logging
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from airflow_stream_provider.lifecycle.errors import SpecError, StorageUnavailable
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.releases.address import StorageAddress
from airflow_stream_provider.releases.place import RemotePlace, StorageConnection, manifest_of
from airflow_stream_provider.runtime.launcher import MANIFEST

if TYPE_CHECKING:
    from hdfs import InsecureClient

WEB_PORT = 9870
# Seconds to connect, and to wait for a part of an answer.
_TIMEOUT = (5, 30)
_CHUNK_BYTES = 65_536
# HdfsCLI's text for the status 401; it says it in no other way.
_ANSWERED_401 = "Authentication failure"
_FOLDER_MODE, _FILE_MODE = "750", "440"


class HdfsPlace(RemotePlace):
    """Releases as folders of HDFS; implements `ReleasePlace`.

    A release is written to a folder beside its own and renamed: with `NONE` that fails where there is one. Without it
    HDFS moves the folder into the one that is there.

    :param client: of the NameNode.
    :param folder: of the stream's releases.
    """

    def __init__(self, client: InsecureClient, folder: str, url: str) -> None:
        super().__init__(url)
        self._client = client
        self._folder = folder

    def publish(self, release: Release, files: Mapping[str, bytes]) -> None:
        """Store a release; see `ReleasePlace.publish`."""
        manifest = manifest_of(release, files)
        final = f"{self._folder}/{release.hash}"
        with self._explained("written"):
            if self._exists(final):
                # So that the clean-up, which knows of no deployment of it yet, takes it for a new one.
                self._client.set_times(final, modification_time=int(time.time() * 1000))
            else:
                self._write(final, {**files, MANIFEST: manifest})
        self.verify(release)

    def _write(self, final: str, files: Mapping[str, bytes]) -> None:
        from hdfs import HdfsError

        temporary = f"{self._folder}/.{final.rpartition('/')[2]}.{uuid.uuid4().hex}"
        self._client.makedirs(temporary, permission=_FOLDER_MODE)
        try:
            for name, data in files.items():
                self._client.write(f"{temporary}/{name}", data, permission=_FILE_MODE)
            try:
                self._rename(temporary, final)
            except HdfsError:
                # Another process may have published the same contents meanwhile.
                if not self._exists(final):
                    raise
        finally:
            with contextlib.suppress(Exception):
                self._client.delete(temporary, recursive=True)

    def _exists(self, path: str) -> bool:
        # Not its `strict=False`, for which a folder that this user may not see does not exist.
        with contextlib.suppress(FileNotFoundError), self._explained("read"):
            self._client.status(path)
            return True
        return False

    def _rename(self, source: str, target: str) -> None:
        # Not its own rename(), which cannot say NONE.
        self._client._rename(source, destination=target, renameoptions="NONE")

    def _names(self, hash: str) -> list[str]:
        with contextlib.suppress(FileNotFoundError), self._explained("read"):
            return list(self._client.list(f"{self._folder}/{hash}"))
        return []

    def _written(self) -> dict[str, float]:
        with contextlib.suppress(FileNotFoundError), self._explained("read"):
            listed = self._client.list(self._folder, True)
            return {name: status["modificationTime"] / 1000 for name, status in listed}
        return {}

    def _now(self, written: Mapping[str, float]) -> float:
        probe = f"{self._folder}/.time.{uuid.uuid4().hex}"
        with self._explained("written"):
            self._client.makedirs(probe)
            try:
                return float(self._client.status(probe)["modificationTime"]) / 1000
            finally:
                self._client.delete(probe, recursive=True)

    def _remove(self, name: str) -> None:
        path = f"{self._folder}/{name}"
        with self._explained("written"):
            if not name.startswith("."):  # no reader shall find a part of a release
                moved = f"{self._folder}/.{name}.{uuid.uuid4().hex}"
                self._rename(path, moved)
                path = moved
            self._client.delete(path, recursive=True)

    def _read(self, path: str) -> bytes:
        # In chunks: only of those HTTP's errors become errors of `requests`.
        with (
            self._explained("read"),
            self._client.read(f"{self._folder}/{path}", chunk_size=_CHUNK_BYTES) as chunks,
        ):
            return b"".join(chunks)

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        """Raise an error of ours in place of HdfsCLI's and of its HTTP client's.

        :raises FileNotFoundError: what is read is not there.
        """
        import requests
        from hdfs import HdfsError

        try:
            yield
        except HdfsError as error:
            if what == "read" and error.exception == "FileNotFoundException":
                raise FileNotFoundError(errno.ENOENT, "it is not there", self._folder) from None
            if "Permission denied" in str(error) or "AccessControlException" in str(error.exception):
                raise SpecError(
                    f"The storage {self._url} cannot be {what}: permission is denied to the user of "
                    "`storage_connection`.",
                    next_step="Give that user read, write and execute on its folder, or correct the login.",
                ) from None
            if str(error).startswith(_ANSWERED_401):
                raise SpecError(
                    f"The storage {self._url} cannot be {what}: this HDFS asks for Kerberos, or for another proof than "
                    "the user's name, which is not supported for releases.",
                    next_step="Set `storage` to an object store, or to a file:// folder that Airflow and all drivers "
                    "mount: see docs/storage.md.",
                ) from None
            if not error.exception:
                raise self._silent(what, "something else does") from None
            raise StorageUnavailable(
                f"The storage {self._url} cannot be {what} now: HDFS says {error.exception}.",
                next_step="Check the NameNode (safe mode, standby, space) and the path in `storage`.",
            ) from None
        except (requests.RequestException, OSError) as error:
            raise self._silent(what, type(error).__name__) from None

    def _silent(self, what: str, found: str) -> StorageUnavailable:
        return StorageUnavailable(
            f"The storage {self._url} cannot be {what} now: WebHDFS does not answer ({found}).",
            next_step="Check host and port in `storage_connection` (WebHDFS of the NameNode, not its RPC port), "
            "and that this machine reaches the DataNodes, to which the NameNode redirects.",
        )


def webhdfs_client(urls: str, user: str, timeout: tuple[float, float]) -> InsecureClient:
    """Return a client of WebHDFS; nothing is asked yet.

    :param urls: of the NameNodes, separated by semicolons.
    :param user: as whom it asks.
    :param timeout: seconds to connect, and to wait for a part of an answer.
    """
    from hdfs import InsecureClient

    # It logs a line of level INFO for each request, which would fill the log of a task.
    logging.getLogger("hdfs").setLevel(logging.WARNING)
    return InsecureClient(urls, user=user, timeout=timeout)


def open_hdfs(address: StorageAddress, connection: StorageConnection | None, stream: str) -> HdfsPlace:
    """Return the place of a stream's releases on HDFS; nothing is asked yet.

    :param connection: of WebHDFS: hosts of the NameNodes, port, and the user as login.
    :raises SpecError: there is none, it cannot be used, or HdfsCLI is not installed.
    """
    if connection is None or connection.conn_type not in ("hdfs", "webhdfs") or not connection.host:
        raise _refused("a storage hdfs:// needs a connection of type webhdfs or hdfs with the NameNode's host")
    if connection.password or connection.extra:
        raise _refused("its password and extra are not used: of authentication there is only the user's name")
    if not connection.login:
        raise _refused("it has no login, the user who writes on HDFS")
    port = connection.port or WEB_PORT
    hosts = [host.strip() for host in connection.host.split(",")]
    urls = ";".join(f"http://{host}" if ":" in host else f"http://{host}:{port}" for host in hosts)
    try:
        client = webhdfs_client(urls, connection.login, _TIMEOUT)
    except ImportError:
        raise SpecError(
            "HdfsCLI is not installed, and a storage hdfs:// needs it.",
            next_step="Install airflow-stream-provider[hdfs] where Airflow's tasks run.",
        ) from None
    folder = f"{address.path}/{stream}/releases"
    return HdfsPlace(client, folder, f"{address.url}/{stream}/releases")


def _refused(found: str) -> SpecError:
    return SpecError(f"The storage cannot be used: {found}.", next_step="See docs/storage.md for the connection.")
