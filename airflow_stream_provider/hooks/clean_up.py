"""Remove files that are not needed any more from a stream's folder, so that it does not grow with the stream's age."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from airflow_stream_provider.control.disk import open_folder, unavailable
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.lifecycle.ids import INCARNATION
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.retire import Stored, expendable
from airflow_stream_provider.releases.folder import FolderPlace, idle, now, remove
from airflow_stream_provider.releases.place import IDLE_SECONDS, ReleasePlace

# Called when all else is clean: it may fail, and on a full disk there is no room for the id that a log is given there.
FindStorage = Callable[[], ReleasePlace | None]


def clean_up(folder: Path, read: Callable[[], StreamState], storage: FindStorage = lambda: None) -> Stored:
    """Remove heartbeats and releases that may go (see `expendable`), and files that killed writers have left.

    A file that cannot be removed is logged, and tried again the next time.

    Folders of the stream are never followed when they are links: a writer of the control root could have anything
    removed that Airflow's user may remove.

    :param folder: the stream's folder.
    :param read: returns the newest state of the log; called after a place was listed.
    :param storage: returns where releases are stored besides in the stream's folder; None, the default: nowhere.
    :return: what may go.
    :raises ControlUnavailable: the folder cannot be read or written now, or one of its folders is none.
    :raises StreamError: the storage cannot be used.
    """
    heartbeats = _clean_up_heartbeats(folder, read)
    return Stored(heartbeats, _clean_up_releases([FolderPlace(folder)], storage, read))


def clean_up_topic(store: TopicStore, read: Callable[[], StreamState], storage: FindStorage = lambda: None) -> Stored:
    """Remove the heartbeats and releases that may go (see `expendable`) of a stream whose log is in Kafka.

    :param storage: returns where releases are stored; None, the default: nowhere.
    :return: what may go.
    :raises ControlUnavailable: the topic cannot be read or written now.
    :raises StreamError: the storage cannot be used.
    """
    idle_ones = frozenset(store.idle_heartbeats(IDLE_SECONDS))
    heartbeats = expendable(read(), Stored(heartbeats=idle_ones)).heartbeats
    for incarnation in sorted(heartbeats):
        store.remove_heartbeat(incarnation)
    return Stored(heartbeats, _clean_up_releases([], storage, read))


def _clean_up_releases(
    control: Iterable[ReleasePlace], find: FindStorage, read: Callable[[], StreamState]
) -> frozenset[str]:
    def may_go(found: frozenset[str]) -> frozenset[str]:
        return expendable(read(), Stored(releases=found)).releases

    gone = frozenset[str]().union(*(place.clean_up(may_go) for place in control))
    storage = find()
    return gone if storage is None else gone | storage.clean_up(may_go)


def _clean_up_heartbeats(folder: Path, read: Callable[[], StreamState]) -> frozenset[str]:
    with unavailable(folder), ExitStack() as opened:
        stream = opened.enter_context(open_folder(folder))
        heartbeats, incoming = (
            opened.enter_context(open_folder(name, inside=stream)) for name in ("heartbeats", "incoming")
        )
        time = now(incoming)
        beats, left = (idle(each, time, IDLE_SECONDS) for each in (heartbeats, incoming))
        known = frozenset(name for name in map(_incarnation, beats) if INCARNATION.fullmatch(name))
        gone = expendable(read(), Stored(heartbeats=known)).heartbeats
        for name in left:
            remove(name, incoming)
        for name in beats:
            if _incarnation(name) in gone:
                remove(name, heartbeats)
    return gone


def _incarnation(name: str) -> str:
    return name.removesuffix(".json")
