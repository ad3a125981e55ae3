"""Read the files of an HDFS over WebHDFS, without a JVM, with the code that reads local checkpoints."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import cast

from airflow_stream_provider.checkpoint.files import FileFacts, Files, Place, RemotePath
from airflow_stream_provider.releases.webhdfs import webhdfs_client

# Seconds to connect, and to wait for a part of an answer: one that is frozen takes the connection, and says nothing.
TIMEOUT = (5.0, 10.0)


class WebHdfsFiles:
    """Implements those methods of `Files` that only read. Several threads may use it.

    Whatever keeps it from an answer, also that none comes in time, is an OSError.

    :param url: where WebHDFS answers, such as ``http://127.0.0.1:9870``.
    :param user: who reads.
    """

    def __init__(self, url: str, user: str) -> None:
        self._client = webhdfs_client(url, user, TIMEOUT)

    def names(self, folder: Place, *, large: bool = False) -> list[str]:
        """See `Files.names`."""
        with _explained(folder):
            return [str(name) for name in self._client.list(_path(folder))]

    def facts(self, paths: Sequence[Place]) -> list[FileFacts | None]:
        """See `Files.facts`. By the NameNode's clock: of a file, when it was closed."""
        return [self._facts(path) for path in paths]

    def read(self, path: Place) -> bytes:
        """See `Files.read`."""
        # In chunks: only of those HTTP's errors become OSErrors.
        with _explained(path), self._client.read(_path(path), chunk_size=2**16) as chunks:
            return b"".join(chunks)

    def _facts(self, path: Place) -> FileFacts | None:
        try:
            with _explained(path):
                found = self._client.status(_path(path))
        except FileNotFoundError:
            return None
        return FileFacts(int(found["length"]), found["modificationTime"] / 1000, found["type"] == "DIRECTORY")


def webhdfs_place(root: str, path: str, url: str, user: str) -> RemotePath:
    """Return a folder of an HDFS, to be read.

    :param root: such as ``hdfs://127.0.0.1:8020``.
    :param path: the absolute path there.
    :param url: where its WebHDFS answers.
    :param user: who reads.
    """
    # Who only reads asks for none of the other methods.
    return RemotePath(root, PurePosixPath(path), cast("Files", WebHdfsFiles(url, user)))


@contextlib.contextmanager
def _explained(path: Place) -> Iterator[None]:
    """Raise an OSError in place of HdfsCLI's; those of its HTTP client are OSErrors."""
    from hdfs import HdfsError

    try:
        yield
    except HdfsError as error:
        if error.exception == "FileNotFoundException":
            raise FileNotFoundError(errno.ENOENT, "it does not exist", str(path)) from None
        raise OSError(errno.EIO, f"HDFS says {error.exception or error}", str(path)) from error


def _path(place: Place) -> str:
    assert isinstance(place, RemotePath)
    return str(place.path)
