"""The stored releases of one stream: publish and verify its releases, and remove what it does not need any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_stream_provider.control.files import FilesStore
from airflow_stream_provider.control.store import ControlRoot, Store
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.hooks.connections import storage_connection
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.retire import Stored, expendable
from airflow_stream_provider.releases.address import StorageAddress
from airflow_stream_provider.releases.folder import FolderPlace
from airflow_stream_provider.releases.open_place import open_place
from airflow_stream_provider.releases.place import IDLE_SECONDS, ReleasePlace

if TYPE_CHECKING:
    from airflow_stream_provider.spec.requested_release import RequestedRelease


def clean_up(store: Store, read: Callable[[], StreamState], places: Iterable[ReleasePlace]) -> Stored:
    """Remove heartbeats and releases that may go (see `expendable`), and files that killed writers have left.

    A file that cannot be removed is logged, and tried again the next time.

    :param store: of the stream's control log.
    :param read: returns the newest state of the log; called after a place was listed.
    :param places: where releases are stored (`StreamReleases.places`).
    :return: what may go.
    :raises ControlUnavailable: the control log cannot be read or written now, or a folder of the stream is none.
    :raises StreamError: the storage cannot be used.
    """

    def may_go(found: frozenset[str]) -> frozenset[str]:
        return expendable(read(), Stored(releases=found)).releases

    assert isinstance(store, FilesStore | TopicStore)
    idle = frozenset(store.idle_heartbeats(IDLE_SECONDS))
    heartbeats = expendable(read(), Stored(heartbeats=idle)).heartbeats
    for incarnation in sorted(heartbeats):
        store.remove_heartbeat(incarnation)
    return Stored(heartbeats, frozenset[str]().union(*(place.clean_up(may_go) for place in places)))


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

    def places(self) -> Iterator[ReleasePlace]:
        """Yield where this log publishes, and has published without a storage."""
        folder = self._root.stream_folder(self._stream)
        if folder is not None:
            yield FolderPlace(folder)
        # Last: on a full disk there is no room for the id that a log is given there.
        if self._storage:
            yield self._place(self._own_storage())

    def _place(self, storage: str) -> ReleasePlace:
        """Return where the releases of a storage are; what was published before `storage` was changed is elsewhere."""
        same = bool(storage) and storage.partition(":")[0] == self._storage.partition(":")[0]
        connection = storage_connection(self._connection) if self._connection and same else None
        return open_place(storage, connection, self._stream, self._root.stream_folder(self._stream))
