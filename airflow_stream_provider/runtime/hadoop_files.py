"""Checkpoints on HDFS, S3A and any other file system of Hadoop, through the driver's JVM.

Each call to the JVM takes a part of a millisecond, so a listing comes as one text and not file by file. The contents of
files that are copied never come to Python.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import math
import uuid
from collections.abc import Callable, Container, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import IO, Any, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError

from airflow_stream_provider.checkpoint.files import FileFacts, Place, RemotePath
from airflow_stream_provider.control.bounded import NoAnswer, OnePlace
from airflow_stream_provider.runtime import jvm
from airflow_stream_provider.runtime.hadoop_texts import (
    ServerSideCopy,
    as_os_error,
    parsed_status,
    says_closed,
    says_replaced,
)

# How long a question may take. A lease is 30 s.
SECONDS = 10.0
# How long the first one may take: S3A loads some hundred classes, and may look for its credentials in the network.
CONNECT_SECONDS = 60.0
# Limits for the copy of one file, the removal of a folder, and a listing whose length others decide.
LONG_SECONDS = 300.0
# Copies side by side: HDFS took 9.5 s for 12 batches one after another, and an object store answers in 30 ms.
THREADS = 16
# More than a log's file or a snapshot's list of tables ever is.
READ_LIMIT = 64 * 2**20
# How often a call is made while the file system is closed, or the file replaced, by others.
TRIES = 5

T = TypeVar("T")


class HadoopFiles:
    """One file system of Hadoop; implements `checkpoint.files.Files`, which describes the methods.

    :param root: its scheme and authority, such as ``hdfs://namenode:8020``.
    :param connect: returns the JVM's FileSystem for the root; called when it is first used.
    """

    def __init__(self, root: str, connect: Callable[[str], Any]) -> None:
        self.root = root
        self._connect = connect
        self._system: Any = None
        # Its threads are used again: each that is new costs a connection to the JVM.
        self._calls = OnePlace("storage", math.inf)
        self._server_side: ServerSideCopy | None = None

    def names(self, folder: Place, *, large: bool = False) -> list[str]:
        found = self._list(folder, LONG_SECONDS if large else None)
        # Hadoop lists a file as itself.
        if [path for path, _ in found] == [_remote(folder).path] and not found[0][1].is_folder:
            raise NotADirectoryError(errno.ENOTDIR, "it is a file", str(folder))
        return [path.name for path, _ in found]

    def walk(self, folder: Place, skip: Container[str] = ()) -> Iterable[tuple[Place, list[str]]]:
        top = _remote(folder)
        try:
            # One listing, also of many folders.
            found = self._do(folder, lambda system: self._listed(system.listFiles(_path(folder), True)), LONG_SECONDS)
        except FileNotFoundError:
            return []
        by_folder: dict[PurePosixPath, list[str]] = {}
        for path, _ in found:
            below = path.relative_to(top.path).parts[:-1]
            if not any(part in skip for part in below):
                by_folder.setdefault(path.parent, []).append(path.name)
        return [(RemotePath(top.root, path, self), names) for path, names in by_folder.items()]

    def facts(self, paths: Sequence[Place]) -> list[FileFacts | None]:
        by_folder: dict[Place, list[Place]] = {}
        for path in paths:
            by_folder.setdefault(path.parent, []).append(path)

        def of(folder: Place) -> dict[Place, FileFacts]:
            wanted = by_folder[folder]
            try:
                if len(wanted) == 1:
                    return {wanted[0]: self._do(wanted[0], lambda system: _facts(system, wanted[0]))}
                listed = self._list(folder, LONG_SECONDS)
            except (FileNotFoundError, NotADirectoryError):
                return {}
            known = {path.name: facts for path, facts in listed if path.parent == _remote(folder).path}
            return {path: known[path.name] for path in wanted if path.name in known}

        found: dict[Place, FileFacts] = {}
        for each in self._side_by_side(of, by_folder):
            found.update(each)
        return [found.get(path) for path in paths]

    def read(self, path: Place) -> bytes:
        def get(system: Any) -> bytes:
            stream = system.open(_path(path))
            try:
                if stream.available() > READ_LIMIT:
                    raise OSError(errno.EFBIG, f"it is larger than {READ_LIMIT} bytes", str(path))
                return bytes(jvm.jvm().org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

        return self._do(path, get)

    def open(self, path: Place) -> IO[bytes]:
        return io.BytesIO(self.read(path))

    def write(self, path: Place, data: bytes) -> None:
        def rename(system: Any, hidden: Place) -> None:
            if not system.rename(_path(hidden), _path(path)):
                raise FileExistsError(errno.EEXIST, "it exists already", str(path))

        self._put(path.parent / f".{path.name}.{uuid.uuid4().hex}", path, data, rename)

    def replace(self, path: Place, data: bytes) -> None:
        if self.root.startswith("s3a:"):
            return self._do(path, lambda system: _upload(system, path, data))

        def rename(system: Any, hidden: Place) -> None:
            hadoop = jvm.jvm().org.apache.hadoop.fs
            over = jvm.gateway().new_array(hadoop.Options.Rename, 1)
            over[0] = hadoop.Options.Rename.OVERWRITE
            # Not `system.rename`, which renames over nothing.
            context = hadoop.FileContext.getFileContext(system.getUri(), system.getConf())
            context.rename(_path(hidden), _path(path), over)

        # A name that Spark passes over.
        return self._put(path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp", path, data, rename)

    def _put(self, hidden: Place, path: Place, data: bytes, rename: Callable[[Any, Place], None]) -> None:
        """Write a file under another name first: one of HDFS is seen, empty, as soon as it is created."""

        def put(system: Any) -> None:
            # Over what a first try has left, before the script closed the file system.
            _create(system, hidden, data)
            rename(system, hidden)

        try:
            self._do(path, put)
        except OSError:
            with contextlib.suppress(OSError):
                self._delete(hidden)
            raise

    def make_private(self, folder: Place) -> None:
        mode = jvm.jvm().org.apache.hadoop.fs.permission.FsPermission("700")
        if not self._do(folder, lambda system: system.mkdirs(_path(folder), mode)):
            raise OSError(errno.EIO, "it cannot be made", str(folder))

    def copy(self, root: Place, files: Iterable[Place], to: Place) -> int:
        # In the store itself where it can do so, else through the JVM.
        wanted = list(files)
        sizes: dict[Place, int] = {}
        for file, facts in zip(wanted, self.facts(wanted)):
            if facts is None:
                raise FileNotFoundError(errno.ENOENT, "it does not exist", str(file))
            sizes[file] = facts.size

        def one(file: Place) -> int:
            target = to / _remote(file).relative_to(root)
            self._do(file, lambda system: self._copy(system, file, target, sizes[file]), LONG_SECONDS)
            return sizes[file]

        return sum(self._side_by_side(one, sizes))

    def remove(self, folder: Place) -> None:
        self._do(folder, lambda system: system.delete(_path(folder), True), LONG_SECONDS)

    def check_writable(self, path: Place) -> None:
        # Beside the folder, where clones and the owner will be. A bucket has no folders to look for, and some
        # let a driver write below a prefix only.
        (found,) = self.facts([path])
        if found is not None and not found.is_folder:
            raise NotADirectoryError(errno.ENOTDIR, "it is a file", str(path))
        probe = path.parent / f"{path.name}.probe-{uuid.uuid4().hex}"
        try:
            self.write(probe, b"0")
        except NotADirectoryError as error:
            raise NotADirectoryError(errno.ENOTDIR, "it is a file", str(path.parent)) from error
        finally:
            with contextlib.suppress(OSError):
                self._delete(probe)

    def list_anew(self, folder: Place) -> None:
        return  # nothing keeps a listing

    def _list(self, folder: Place, seconds: float | None) -> list[tuple[PurePosixPath, FileFacts]]:
        return self._do(folder, lambda system: self._listed(system.listStatusIterator(_path(folder))), seconds)

    def _delete(self, file: Place) -> None:
        self._do(file, lambda system: system.delete(_path(file), False))

    def _copy(self, system: Any, file: Place, target: Place, size: int) -> None:
        server_side = self._server_side or ServerSideCopy(system)
        self._server_side = server_side
        if server_side.copied(_path(file), _path(target), size):
            return
        source = system.open(_path(file))
        try:
            sink = system.create(_path(target), True)
        except BaseException:
            source.close()
            raise
        jvm.jvm().org.apache.hadoop.io.IOUtils.copyBytes(source, sink, 2**16, True)

    def _listed(self, iterator: Any) -> list[tuple[PurePosixPath, FileFacts]]:
        java, apache = jvm.jvm().java, jvm.jvm().org.apache
        listed = apache.hadoop.util.functional.RemoteIterators.toList(iterator)
        # A log of 100 batches is 33 kB of text, and 2 kB zipped. An answer of py4j above 8 kB leaves the JVM in parts,
        # and the last waits for the 40 ms after which Python's side acknowledges the first.
        zipped = java.io.ByteArrayOutputStream()
        sink = java.util.zip.GZIPOutputStream(zipped)
        # A name with a line break, which Spark never makes, is then no status that is known.
        apache.commons.io.IOUtils.writeLines(listed, "\n", sink, "UTF-8")
        sink.close()
        return [
            parsed_status(each) for each in gzip.decompress(bytes(zipped.toByteArray())).decode().split("\n") if each
        ]

    def _side_by_side(self, call: Callable[[Place], T], places: Iterable[Place]) -> list[T]:
        wanted = list(places)
        if len(wanted) < 2:
            return [call(place) for place in wanted]
        with ThreadPoolExecutor(min(THREADS, len(wanted)), "airflow-stream-storage-wait") as pool:
            waiting = [pool.submit(call, place) for place in wanted]
            try:
                return [each.result() for each in waiting]
            finally:
                for each in waiting:
                    each.cancel()

    def _connected(self) -> Any:
        system = self._system  # another thread may find it closed meanwhile
        if system is None:
            self._system = system = self._connect(self.root)
        return system

    def _do(self, place: Place, call: Callable[[Any], T], seconds: float | None = None) -> T:
        def translated() -> T:
            try:
                return again()
            except Py4JJavaError as error:
                raise as_os_error(error, place) from error
            except Py4JError as error:
                raise OSError(errno.EIO, f"the driver's JVM does not say: {error!s:.200}", str(place)) from error

        def again() -> T:
            for _ in range(TRIES - 1):
                try:
                    return call(self._connected())
                except Py4JJavaError as error:
                    if says_closed(error):
                        # Hadoop keeps one FileSystem for all callers, and each of them may close it, as scripts do.
                        self._system = self._server_side = None
                    elif not says_replaced(error):
                        raise
            return call(self._connected())

        usual = SECONDS if self._system is not None else CONNECT_SECONDS
        return self._in_time(place, translated, usual if seconds is None else seconds)

    def _in_time(self, place: Place, call: Callable[[], T], seconds: float) -> T:
        """Return what the call returns, or raise what it raises.

        HDFS's client tries for up to 15 minutes to reach a NameNode that is away, and the thread that waits for it may
        be the one that renews the lease. While a call is overdue all others fail at once: they would go as that one
        went.

        :raises TimeoutError: it has not ended within so many seconds, or an earlier one still has not. Either may yet.
        """
        if self._calls.hangs():
            raise TimeoutError(errno.ETIMEDOUT, "its storage has not answered an earlier question yet", str(place))
        try:
            return self._calls.call(call, seconds, "Its storage")
        except NoAnswer:
            late = f"its storage has not answered for {seconds:.0f} s"
            raise TimeoutError(errno.ETIMEDOUT, late, str(place)) from None


def _remote(place: Place) -> RemotePath:
    assert isinstance(place, RemotePath)
    return place


def _path(place: Place) -> Any:
    return jvm.jvm().org.apache.hadoop.fs.Path(str(place))


def _create(system: Any, path: Place, data: bytes) -> None:
    stream = system.create(_path(path), True)
    try:
        stream.write(data)
    finally:
        stream.close()


def _upload(system: Any, path: Place, data: bytes) -> None:
    stream = system.create(_path(path), True)
    try:
        stream.write(data)
    except BaseException:
        stream.abort()  # what is closed is uploaded, complete or not
        raise
    stream.close()


def _facts(system: Any, path: Place) -> FileFacts:
    return parsed_status(str(system.getFileStatus(_path(path)).toString()))[1]
