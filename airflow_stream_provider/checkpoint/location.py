"""Turn checkpoint locations into places on a file system, and refuse locations that a stream cannot use."""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
import stat
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Union

from airflow_stream_provider.checkpoint.files import Files, Place, RemotePath
from airflow_stream_provider.checkpoint.local_files import LocalFiles
from airflow_stream_provider.lifecycle.errors import CheckpointError

# The name of the checkpoint that Spark creates for a query without checkpointLocation.
TEMPORARY = re.compile(r"temporary-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Location = Union[str, os.PathLike[str], RemotePath]

_FILE = re.compile(r"file:(?://(?:localhost)?(?=/)|(?!//))(?P<path>.*)", re.IGNORECASE | re.DOTALL)
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<authority>[^/]*))?(?P<path>.*)", re.DOTALL)
# Other names of one storage; used for comparisons only.
_SAME_SCHEME = {"s3": "s3a", "s3n": "s3a", "abfs": "abfss"}
_DEFAULT_PORT = {"hdfs": ":8020"}
_LOCAL = LocalFiles()


class Storage(NamedTuple):
    """The storage that a driver reaches through its JVM; `runtime.places` makes it.

    :param default: returns Hadoop's `fs.defaultFS` as a URL, the file system of a location without a scheme. It may
        have no host, such as ``viewfs:///``.
    :param open: returns the file system at a root, such as ``s3a://bucket``. It connects only when it is used.
    """

    default: Callable[[], str]
    open: Callable[[str], Files]


_storage: Storage | None = None


def reach(storage: Storage | None) -> None:
    """Let this process use checkpoints on storage that is not mounted here. Only a driver can; Airflow never does."""
    global _storage
    _storage = storage


def locate(location: Location) -> Place:
    """Return where a checkpoint is. Nothing is asked of its storage.

    Spark reports a local location as it was given or as ``file:/path``. Both, and ``file:///path``, are one folder. As
    in Hadoop's Path, nothing in a location is escaped: ``%20``, ``#`` and ``?`` are parts of a name.

    :param location: an absolute path, or a URL. A path is on Spark's `fs.defaultFS` in a driver.
    :raises CheckpointError: the location is empty, relative, the root of a storage, or not on a local or mounted file
        system where no other can be reached.
    """
    if isinstance(location, RemotePath):
        return location
    text = os.fspath(location)
    if not text.strip():
        raise CheckpointError(
            "The checkpoint location is empty.",
            next_step="Set the option checkpointLocation of the query to a folder that outlives the driver.",
        )
    default = _storage.default() if _storage else ""
    found = _parsed(text, default)
    if isinstance(found, Path):
        if not found.is_absolute():
            raise _relative(text)
        if not found.name:
            raise _no_folder(text)
        return found
    root, path = found
    scheme = root.partition(":")[0]
    if _storage is None or scheme == "file":
        raise CheckpointError(
            f"The checkpoint {text} is on {scheme}:, but only local and mounted folders are supported here.",
            next_step="Use an absolute path or a file: URL on storage that is mounted here.",
            location=text,
        )
    if not path.startswith("/"):
        raise _relative(text)
    if path == "/":
        raise _no_folder(text)
    # A default such as viewfs:/// has none, and means one file system all the same.
    if root.endswith("//") and root != file_system_of(default).lower():
        raise _no_folder(text, "host or bucket")
    return RemotePath(root, PurePosixPath(path), _storage.open(root))


def followed(location: Location) -> Place:
    """Return where a checkpoint is whose location is a symbolic link; any other as `locate` does.

    A link higher up needs no such care: all names of a folder show the same files beside the checkpoint. On storage
    that is not mounted there are no links (HDFS refuses to make one unless it is told to).

    :raises CheckpointError: as `locate`, also for what the link leads to, and when it leads nowhere or cannot be
        followed.
    """
    place = locate(location)
    if isinstance(place, RemotePath):
        return place
    try:
        is_link = stat.S_ISLNK(os.lstat(place).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return place
    except OSError as error:
        raise _not_followed(place, error.strerror or str(error)) from error
    try:
        found = place.resolve(strict=True) if is_link else place
    except (OSError, RuntimeError) as error:  # the second: it leads to itself
        why = error.strerror if isinstance(error, OSError) else "it leads to itself"
        raise _not_followed(place, why or str(error)) from error
    if not found.name:
        raise _no_folder(str(place))
    return found


def files_of(place: Place) -> Files:
    """Return the file system of a place."""
    return place.files if isinstance(place, RemotePath) else _LOCAL


def local_path(location: Location) -> Path:
    """Return the folder of a checkpoint location that the operating system reaches; see `locate`.

    :raises CheckpointError: as `locate`, and when it is on other storage.
    """
    place = locate(location)
    if isinstance(place, RemotePath):
        raise CheckpointError(
            f"The checkpoint {place} is on {place.root}, and in no local or mounted folder.",
            next_step="Use an absolute path or a file: URL on storage that all drivers mount.",
            location=str(place),
        )
    return place


def qualified(location: str) -> str:
    """Return a location as every machine understands it: what a remote `fs.defaultFS` completes becomes a whole URL.

    Any other stays as it is, also one that `locate` refuses.
    """
    url = _URL.fullmatch(location)
    if _storage is None or (url is not None and url["authority"]):
        return location
    try:
        place = locate(location)
    except CheckpointError:
        return location
    return str(place) if isinstance(place, RemotePath) else location


def normal_form(location: str) -> str:
    """Return the one spelling by which locations are compared; what is no location comes back as it is given.

    A release may write a checkpoint in another way than the one before it: with more slashes, HDFS's default port, or
    ``s3:`` for ``s3a:``.
    """
    return _form(location, _storage.default() if _storage else "")


def recorded_form(location: str) -> str:
    """Return the normal form of a location that a driver has recorded: without a scheme it is local (`qualified`).

    The driver that reads it may have another `fs.defaultFS` than the one that wrote it.
    """
    return normal_form(location) if _URL.fullmatch(location) else _form(location, "")


def file_system_of(form: str) -> str:
    """Return on which file system the place of a normal form is, such as ``hdfs://namenode``; ``file:`` if local."""
    url = _URL.fullmatch(form)
    return "file:" if url is None else f"{url['scheme']}://{url['authority'] or ''}"


def _form(location: str, default: str) -> str:
    if not location.strip():
        return location
    found = _parsed(location, default)
    if isinstance(found, Path):
        return str(found) if found.is_absolute() else location.rstrip("/")
    root, path = found
    scheme, _, authority = root.lower().partition("://")
    port = _DEFAULT_PORT.get(scheme, "")
    authority = authority[: -len(port)] if port and authority.endswith(port) else authority
    return f"{_SAME_SCHEME.get(scheme, scheme)}://{authority}{path.rstrip('/')}"


def real_form(location: str) -> str:
    """Return the normal form of a location with all symbolic links followed: on this machine, now.

    Two names of one folder are one here. Never stored, as a link may lead elsewhere on another day.
    """
    form = normal_form(location)
    return os.path.realpath(form) if form.startswith("/") else form


def check_location(location: Location) -> Place:
    """Check that a stream at this location can be handed over. Nothing is left there but a folder to put it in.

    :raises CheckpointError: the location is not valid (see `locate`), not writable, a link that cannot be followed,
        encrypted where the clones beside it would not be, or temporary: without checkpointLocation Spark creates
        ``temporary-<uuid>`` and deletes it with the query.
    """
    place = locate(location)
    if any(TEMPORARY.fullmatch(part) for part in place.parts):
        raise CheckpointError(
            f"The checkpoint {place} is temporary: Spark deletes it when the query ends.",
            next_step="Set the option checkpointLocation of the query to a folder that outlives the driver.",
            location=str(place),
        )
    folder = followed(place)
    try:
        files_of(place).check_writable(place)
        if folder != place:
            files_of(folder).check_writable(folder.parent)  # where the owner file will be
    except NotADirectoryError as error:
        raise CheckpointError(
            f"The checkpoint {place} cannot be a folder: {error.filename} is a file.",
            next_step="Choose another checkpointLocation.",
            location=str(place),
        ) from error
    except OSError as error:
        raise CheckpointError(
            f"The checkpoint {place} is not writable: {error.strerror or error} (tried in {error.filename}).",
            next_step="Give the driver's user write access, or choose another checkpointLocation.",
            location=str(place),
        ) from error
    if _is_alone_encrypted(place):
        raise CheckpointError(
            f"The checkpoint {place} is encrypted by its storage, but {place.parent}, where its clones are, is not.",
            next_step="Put the checkpoint into a folder of an encryption zone: docs/storage.md.",
            location=str(place),
        )
    return place


def _is_alone_encrypted(folder: Place) -> bool:
    with contextlib.suppress(OSError):  # a driver may have no right to look above its own
        own, above = (files_of(each).facts([each])[0] for each in (folder, folder.parent))
        return own is not None and above is not None and own.is_encrypted and not above.is_encrypted
    return False


def _parsed(text: str, default: str) -> Path | tuple[str, str]:
    """Return a local path, or the root and the path of another location, without dots and doubled slashes."""
    local = _FILE.fullmatch(text)
    if local:
        return _plain(re.sub("^/+", "/", local["path"]))
    url = _URL.fullmatch(text)
    usual = _URL.fullmatch(default)
    remote = usual if usual is not None and usual["scheme"].lower() != "file" else None
    if url is None:
        if remote is None or not text.startswith("/"):
            return _plain(text)
        scheme, authority, path = remote["scheme"], remote["authority"] or "", text
    else:
        scheme, authority, path = url["scheme"], url["authority"] or "", url["path"]
        if not authority and remote is not None and remote["scheme"].lower() == scheme.lower():
            authority = remote["authority"] or ""
    if path.startswith("/"):
        path = posixpath.normpath(re.sub("^/+", "/", path))
    return f"{scheme.lower()}://{authority}", path


def _plain(path: str) -> Path:
    # As Hadoop's Path, for which link/.. is the folder that the link is in; for the operating system it is another one.
    return Path(posixpath.normpath(path))


def _not_followed(place: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"It is not known which folder the checkpoint {place} is: {why}.",
        next_step="Make the folder that the link leads to, or name that folder as checkpointLocation.",
        location=str(place),
    )


def _no_folder(text: str, what: str = "folder") -> CheckpointError:
    return CheckpointError(
        f"The checkpoint location {text} names no {what}.",
        next_step="Use one such as /data/checkpoints/orders, hdfs://namenode:8020/checkpoints/orders or "
        "s3a://bucket/checkpoints/orders.",
        location=text,
    )


def _relative(text: str) -> CheckpointError:
    return CheckpointError(
        f"The checkpoint location {text} is relative, so each driver would use another folder.",
        next_step="Use an absolute path or a URL.",
        location=text,
    )
