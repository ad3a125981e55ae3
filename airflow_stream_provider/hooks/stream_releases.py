"""Where the releases of one stream are: publish them, and verify what is stored."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_stream_provider.control.store import ControlRoot
from airflow_stream_provider.hooks.connections import storage_connection
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.releases.address import StorageAddress
from airflow_stream_provider.releases.open_place import open_place
from airflow_stream_provider.releases.place import ReleasePlace

if TYPE_CHECKING:
    from airflow_stream_provider.spec.requested_release import RequestedRelease


class StreamReleases:
    """The releases of one stream.

    :param root: where the stream's control log lives.
    :param control: its URL, as the stream's YAML has it.
    :param storage: URL of the storage of new releases; empty: the control folder, which one in Kafka has not.
    :param connection: Airflow connection id of that storage; None: the credentials of the environment.
    """

    def __init__(self, root: ControlRoot, control: str, stream: str, storage: str, connection: str | None) -> None:
        self._root = root
        self._control = control
        self._stream = stream
        self._storage = storage
        self._connection = connection

    def publish(self, requested: RequestedRelease) -> Release:
        """Copy the files of a release to the storage, under their hash; the same contents give the same release.

        :raises SpecError: the release cannot be used (`RequestedRelease.make`); nothing was copied.
        :raises StorageUnavailable: the storage cannot be written now.
        """
        release, files = requested.make()
        release = replace(release, storage=self._own_storage())
        self._place(release.storage).publish(release, files)
        return release

    def verify(self, release: Release) -> dict[str, str]:
        """Return the SHA-256 of each stored file of a release, by its name, once they are verified.

        :raises StreamError: they are not what was published, or cannot be read now.
        """
        return self._place(release.storage).verify(release)

    def own(self, release: Release) -> bool:
        """Return whether a release is where this stream publishes now."""
        return release.storage == self._own_storage()

    def _own_storage(self) -> str:
        """Return the part of the storage in which this log publishes; empty: the control folder, which is its alone.

        Another log may have a stream of this name and the same storage, and neither knows what the other one runs.
        """
        if not self._storage:
            return ""
        return StorageAddress.parse(self._storage).of_log(self._control, self._root.log_id(self._stream)).url

    def storage_of_log(self) -> ReleasePlace | None:
        """Return where this log alone publishes, for a clean-up; None: all of it is in the control folder."""
        return self._place(self._own_storage()) if self._storage else None

    def _place(self, storage: str) -> ReleasePlace:
        """Return where the releases of a storage are; what was published before `storage` was changed is elsewhere."""
        same = bool(storage) and storage.partition(":")[0] == self._storage.partition(":")[0]
        connection = storage_connection(self._connection) if self._connection and same else None
        return open_place(storage, connection, self._stream, self._root.stream_folder(self._stream))
