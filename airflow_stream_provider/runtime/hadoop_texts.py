"""Read what Hadoop says of files, and copy files inside an object store where Hadoop can."""

from __future__ import annotations

import errno
import logging
import re
from pathlib import PurePosixPath
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError

from airflow_stream_provider.checkpoint.files import FileFacts, Place

# Characters of what Hadoop says. S3A names the file twice before it says why, such as by the status 403.
TEXT_LIMIT = 1000
# From the text of a FileStatus. The fields after the path hold no text that others choose. That of ABFS is wrapped in
# another one: VersionedFileStatus{VersionedFileStatus{path=...
_STATUS = re.compile(
    r"^(?:\w*\{)+path=(?P<path>.*); isDirectory=(?P<folder>true|false)(?:; length=(?P<size>\d+))?.*?; "
    r"modification_time=(?P<time>\d+)(?:.*?; isEncrypted=(?P<encrypted>true|false))?",
)
# Without a host: viewfs:/folder, where the location is viewfs:///folder.
_ROOT = re.compile(r"[^:/]+:(//[^/]*)?")
# HDFS says "Filesystem closed", S3A "FileSystem is closed!", Google "GoogleHadoopFileSystem has been closed".
_CLOSED = re.compile(r"file ?system\b.*\bclosed", re.IGNORECASE)
# `DFSInputStream`, where a block of an open file is gone since the name belongs to another file.
_REPLACED = re.compile(r"Blocklist for .* has changed")
_ERRORS = {
    "FileNotFoundException": (FileNotFoundError, errno.ENOENT, "it does not exist"),
    "FileAlreadyExistsException": (FileExistsError, errno.EEXIST, "it exists already"),
    "AccessControlException": (PermissionError, errno.EACCES, ""),
    "AccessDeniedException": (PermissionError, errno.EACCES, ""),
    "ParentNotDirectoryException": (NotADirectoryError, errno.ENOTDIR, ""),
}


def parsed_status(text: str) -> tuple[PurePosixPath, FileFacts]:
    """Return the path and the facts in the text of Hadoop's FileStatus.

    :raises OSError: it is another text.
    """
    status = _STATUS.search(text)
    root = _ROOT.match(status["path"]) if status else None
    if status is None or root is None:
        raise OSError(errno.EPROTO, f"its file system describes a file in a way that is not known: {text:.200}")
    is_folder, is_encrypted = (status[name] == "true" for name in ("folder", "encrypted"))
    facts = FileFacts(int(status["size"] or 0), int(status["time"]) / 1000, is_folder, is_encrypted)
    return PurePosixPath(status["path"][root.end() :]), facts


def as_os_error(error: Py4JJavaError, place: Place) -> OSError:
    """Return the error of Python for one of the JVM.

    :param place: what was asked for.
    """
    java = error.java_exception
    # Hadoop wraps what happens in another thread.
    while java.getClass().getSimpleName() in ("UncheckedIOException", "ExecutionException") and java.getCause():
        java = java.getCause()
    name = java.getClass().getSimpleName()
    known, number, said = _ERRORS.get(name, (OSError, errno.EIO, ""))
    message = str(java.getMessage() or "").strip().partition("\n")[0]
    return known(number, said or f"{name}: {message:.{TEXT_LIMIT}}", str(place))


def says_closed(error: Py4JJavaError) -> bool:
    """Say if the FileSystem was closed by another of its users."""
    return bool(_CLOSED.search(str(error.java_exception.getMessage())))


def says_replaced(error: Py4JJavaError) -> bool:
    """Say if the file was replaced while it was read, so that it can be read again: HDFS and S3A read no mix of two."""
    java = error.java_exception
    name = java.getClass().getSimpleName()
    return name == "RemoteFileChangedException" or bool(_REPLACED.search(str(java.getMessage())))


# S3 copies no more than this in one request; larger files go through the driver.
LIMIT = 5 * 2**30

log = logging.getLogger(__name__)


class ServerSideCopy:
    """S3's CopyObject, by the requests that S3A makes when it renames: with the encryption of its settings.

    :param system: Hadoop's FileSystem. For any but S3A of Hadoop 3.4 and later nothing is copied here.
    """

    def __init__(self, system: Any) -> None:
        self._s3a: Any = None
        try:
            if system.getScheme() == "s3a":
                self._s3a = system.getS3AInternals()
                self._client = self._s3a.getAmazonS3Client("clones of a rehearsal")
                self._context = system.createStoreContext()
                self._requests = self._context.getRequestFactory()
        except Py4JError as error:  # Hadoop 3.3 has none of this
            self._s3a = None
            log.info(
                "Files are copied through the driver: S3A does not let them be copied in the store (%.200s)", error
            )

    def copied(self, file: Any, target: Any, size: int) -> bool:
        """Copy a file, and return True; return False when the store cannot, or may not, do so.

        :param file: Hadoop's Path, as `target`.
        :param size: bytes of the file.
        :raises Py4JJavaError: the file does not exist, or cannot be read.
        """
        s3a = self._s3a  # another thread may be refused meanwhile
        if s3a is None or size > LIMIT:
            return False
        found = s3a.getObjectMetadata(file)
        keys = self._context.pathToKey(file), self._context.pathToKey(target)
        try:
            self._client.copyObject(self._requests.newCopyObjectRequestBuilder(*keys, found).build())
        except Py4JJavaError as error:
            # Such as of a driver that may read and write, but with a key that does not cover the copy.
            log.warning("S3 refuses to copy a file inside the store; they go through the driver: %.300s", error)
            self._s3a = None
            return False
        return True
