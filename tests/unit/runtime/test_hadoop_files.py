"""What Hadoop's file systems say, in their own words; real ones are in tests/integration."""

from __future__ import annotations

import contextlib
import errno
import threading
import time
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from airflow_stream_provider.checkpoint.files import FileFacts, RemotePath
from airflow_stream_provider.runtime import hadoop_files
from airflow_stream_provider.runtime.hadoop_files import LEFT_SECONDS, REPLACED_TRIES, HadoopFiles, left_behind


def test_only_what_killed_drivers_left_beside_this_folder_long_ago_is_removed() -> None:
    random = "0123456789abcdef" * 2
    left = [f"cp.probe-{random}", f".cp.probe-{random}.{random}", f".cp.owner.{random}"]
    others = ["cp", "cp.owner", "cp.rehearsal-orders-1.0000000a", f"xcp.probe-{random}", f".cp2.owner.{random}"]
    others += [f"cp.probe-{random}x", "cp.probe-1", f".cp.{random}", f"..cp.owner.{random}"]
    old = dict.fromkeys([*left, *others], 0.0)
    probe = f"cp.probe-{'a' * 32}"
    now = {probe: LEFT_SECONDS + 1}
    assert left_behind("cp", probe, old | now) == left
    assert left_behind("cp", probe, dict.fromkeys(left, 1.0) | now) == [], "somebody may still write them"
    assert left_behind("cp", probe, old) == [], "the time is not known"
    assert left_behind("c.p+", probe, old | now) == []


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

    assert read(REPLACED_TRIES - 1) == REPLACED_TRIES
    with pytest.raises(OSError, match=name):
        read(REPLACED_TRIES)


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
        self.now = 2 * LEFT_SECONDS
        self.held: dict[str, float] = {}
        create = lambda path, overwrite: SimpleNamespace(write=lambda data: None, close=lambda: self.put(path))  # noqa: E731
        system = SimpleNamespace(
            create=create,
            rename=lambda source, target: self.put(target) and self.held.pop(source),
            delete=lambda path, recursive: self.held.pop(path, None),
            listStatusIterator=lambda folder: folder,
        )
        super().__init__("s3a://bucket", lambda url: system)
        self._do(RemotePath(self.root, PurePosixPath("/"), self), lambda system: None)  # it is connected

    def put(self, path: str) -> float:
        self.held[path] = self.now
        return self.now

    def facts(self, paths: Any) -> Any:
        return [FileFacts(1, self.held[str(path)]) if str(path) in self.held else None for path in paths]

    def _listed(self, iterator: Any) -> Any:
        if iterator == "s3a://bucket/":
            self.end.wait(60)
        return [(PurePosixPath(path.removeprefix(self.root)), FileFacts(1, at)) for path, at in self.held.items()]


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> LargeParent:
    monkeypatch.setattr(hadoop_files, "_path", str)
    return LargeParent()


def test_nobody_waits_for_the_listing_of_a_large_folder_that_only_sweeps(large: LargeParent) -> None:
    """Found by a review: the questions after it failed, and with them the rehearsal."""
    left, mine = f"s3a://bucket/cp.probe-{'a' * 32}", RemotePath(large.root, PurePosixPath("/cp"), large)
    large.held[left] = 0.0
    large.check_writable(mine)
    assert large.held == {left: 0.0}, "its own probe is gone"
    assert large.names(mine) == [PurePosixPath(left).name]
    large.end.set()
    until = time.monotonic() + 60
    while large.held and time.monotonic() < until:
        time.sleep(0.01)
    assert large.held == {}


def test_a_listing_of_which_others_decide_how_long_it_is_may_take_longer(
    large: LargeParent, monkeypatch: pytest.MonkeyPatch
) -> None:
    top, cp = (RemotePath(large.root, PurePosixPath(path), large) for path in ("/", "/cp"))
    large.put("s3a://bucket/cp.owner")
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
