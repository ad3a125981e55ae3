"""What Hadoop's file systems say, in their own words; real ones are in tests/integration."""

from __future__ import annotations

import contextlib
import errno
import threading
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from airflow_stream_provider.checkpoint.files import FileFacts, RemotePath
from airflow_stream_provider.runtime import hadoop_files
from airflow_stream_provider.runtime.hadoop_files import TRIES, HadoopFiles


class Java(Py4JJavaError):  # type: ignore[misc]  # py4j has no types
    """An exception of the JVM, as py4j raises it; without a JVM."""

    def __init__(self, name: str, says: str) -> None:
        Exception.__init__(self, says)
        kind = SimpleNamespace(getSimpleName=lambda: name)
        self.java_exception = SimpleNamespace(getMessage=lambda: says, getClass=lambda: kind, getCause=lambda: None)

    def __str__(self) -> str:
        return str(self.args[0])


class ClosedBeforeTheRename:
    """Says what HDFS says; the script closes it once, when a file has been created and not been renamed yet."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.closed = False

    def create(self, path: str, overwrite: bool) -> Any:
        if path in self.files and not overwrite:
            raise Java("FileAlreadyExistsException", f"{path} for client 127.0.0.1 already exists")
        self.files.add(path)
        return SimpleNamespace(write=lambda data: None, close=lambda: None)

    def rename(self, source: str, target: str) -> bool:
        if not self.closed:
            self.closed = True
            raise Java("IOException", "Filesystem closed")
        self.files.remove(source)
        self.files.add(target)
        return True

    def delete(self, path: str, recursive: bool) -> bool:
        self.files.discard(path)
        return True


def test_a_file_is_written_though_the_script_closes_a_mock_of_hdfs_in_the_middle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Found by a review: the owner of a checkpoint was then taken for written, and no file was there."""
    monkeypatch.setattr(hadoop_files, "_path", str)
    system = ClosedBeforeTheRename()
    files = HadoopFiles("hdfs://host", lambda url: system)
    files.write(RemotePath("hdfs://host", PurePosixPath("/cp.owner"), files), b"x")
    assert system.files == {"hdfs://host/cp.owner"}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("IOException", "Blocklist for /cp/offsets/7 has changed!"),
        ("RemoteFileChangedException", "read `s3a://bucket/cp/offsets/7': Change reported by S3"),
    ],
)
def test_a_file_that_is_replaced_while_a_mock_reads_it_is_read_again(name: str, says: str) -> None:
    """Seen on HDFS where the first block was gone before it was read."""

    def read(times: int) -> int:
        calls = []

        def call(system: Any) -> int:
            calls.append(system)
            if len(calls) <= times:
                raise Java(name, says)
            return len(calls)

        files = HadoopFiles("hdfs://host", lambda url: object())
        return files._do(RemotePath("hdfs://host", PurePosixPath("/cp/offsets/7"), files), call)

    assert read(TRIES - 1) == TRIES
    with pytest.raises(OSError, match=name):
        read(TRIES)


def test_while_a_call_is_overdue_the_next_ones_fail_at_once_and_are_not_made() -> None:
    """They would go as that one went, and may be made by the thread that renews the lease."""
    begun, go_on, made = threading.Event(), threading.Event(), list[int]()
    files = HadoopFiles("hdfs://n", lambda url: object())
    place = RemotePath(files.root, PurePosixPath("/cp"), files)

    def hang(system: Any) -> None:
        begun.set()
        go_on.wait(60)

    assert files._do(place, lambda system: 7) == 7
    with pytest.raises(TimeoutError, match="of its own"):
        files._do(place, lambda system: (_ for _ in ()).throw(TimeoutError("of its own")))
    while not begun.is_set():
        with pytest.raises(TimeoutError, match="its storage has not answered for 0 s") as caught:
            files._do(place, hang, 0.05)
    assert (caught.value.errno, caught.value.filename) == (errno.ETIMEDOUT, "hdfs://n/cp")
    with pytest.raises(TimeoutError, match="its storage has not answered an earlier question yet") as caught:
        files._do(place, lambda system: made.append(1))
    assert (caught.value.filename, made) == ("hdfs://n/cp", [])
    go_on.set()
    while not made:
        with contextlib.suppress(TimeoutError):
            files._do(place, lambda system: made.append(1))


class LargeParent(HadoopFiles):
    """A file system, without a JVM, in which the listing of the folder `/` ends when a test says so."""

    def __init__(self) -> None:
        self.end = threading.Event()
        super().__init__("s3a://bucket", lambda url: SimpleNamespace(listStatusIterator=lambda folder: folder))
        self._do(RemotePath(self.root, PurePosixPath("/"), self), lambda system: None)  # it is connected

    def _listed(self, iterator: Any) -> Any:
        if iterator == "s3a://bucket/":
            self.end.wait(60)
        return [(PurePosixPath("/cp.owner"), FileFacts(1, 1.0))]


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> LargeParent:
    monkeypatch.setattr(hadoop_files, "_path", str)
    return LargeParent()


def test_a_listing_of_which_others_decide_how_long_it_is_may_take_longer(
    large: LargeParent, monkeypatch: pytest.MonkeyPatch
) -> None:
    top, cp = (RemotePath(large.root, PurePosixPath(path), large) for path in ("/", "/cp"))
    found: list[list[str]] = []
    listing = threading.Thread(target=lambda: found.append(large.names(top, large=True)))
    monkeypatch.setattr(hadoop_files, "SECONDS", 0.5)
    listing.start()
    listing.join(1.0)
    monkeypatch.setattr(hadoop_files, "SECONDS", 60.0)  # of a busy machine, for what is asked beside it
    assert large.names(cp) == ["cp.owner"], "it fails nothing else"
    large.end.set()
    listing.join(60)
    assert found == [["cp.owner"]]
    large.end.clear()
    monkeypatch.setattr(hadoop_files, "SECONDS", 0.5)
    with pytest.raises(TimeoutError):
        large.names(top)
    large.end.set()
