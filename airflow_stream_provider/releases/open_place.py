"""Find the place in which a stream's releases are stored."""

from __future__ import annotations

from pathlib import Path

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.ids import RELEASE_HASH, check_id, check_stream_name
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.releases.address import StorageAddress
from airflow_stream_provider.releases.folder import FolderPlace
from airflow_stream_provider.releases.objects import open_objects
from airflow_stream_provider.releases.place import ReleasePlace, StorageConnection
from airflow_stream_provider.releases.webhdfs import open_hdfs


def address_of(release: Release, stream: str, control_folder: Path | None) -> str:
    """Return the path or URL of the folder of a release's files, as drivers see it.

    :param control_folder: the stream's folder under the control URL; None: there is none.
    :raises SpecError: the record of the release names no hash or storage; somebody else may have written it.
    """
    if not release.storage:
        if control_folder is None:
            raise _nowhere(stream)
        return str(release.folder(control_folder))
    address = StorageAddress.parse(release.storage)
    if address.is_folder:
        return str(release.folder(Path(address.path) / check_stream_name(stream)))
    hash = check_id(release.hash, RELEASE_HASH)
    return f"{address.url}/{check_stream_name(stream)}/releases/{hash}"


def open_place(
    storage: str, connection: StorageConnection | None, stream: str, control_folder: Path | None
) -> ReleasePlace:
    """Return the place of a stream's releases; nothing is read or written yet.

    :param storage: URL of the storage; empty: the stream's folder under the control URL.
    :param connection: its credentials; None: those that the process finds in its environment.
    :raises SpecError: the URL or the connection cannot be used, or a library for it is not installed.
    """
    if not storage:
        if control_folder is None:
            raise _nowhere(stream)
        return FolderPlace(control_folder)
    address = StorageAddress.parse(storage)
    if address.scheme == "hdfs":
        return open_hdfs(address, connection, check_stream_name(stream))
    if not address.is_folder:
        return open_objects(address, connection, check_stream_name(stream))
    return FolderPlace(Path(address.path) / check_stream_name(stream), root=Path(address.whole.path))


def _nowhere(stream: str) -> SpecError:
    return SpecError(
        f"The control log of {stream} is in Kafka, and `storage` is not set: its releases have no place.",
        next_step="Set `storage` to where they shall be, such as s3a://bucket/prefix, or file:///a/folder that Airflow "
        "and all drivers mount. See docs/storage.md.",
    )
