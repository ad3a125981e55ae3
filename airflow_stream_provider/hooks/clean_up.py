"""Remove what nobody needs any more from a stream's folder, so that it does not grow with the stream's age."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from airflow_stream_provider.control.disk import open_folder, unavailable
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.lifecycle.ids import INCARNATION
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.clean_up import Stored, expendable
from airflow_stream_provider.releases.folder import FolderPlace
from airflow_stream_provider.releases.idle_files import idle, now, remove
from airflow_stream_provider.releases.place import IDLE_SECONDS, ReleasePlace


def clean_up(folder: Path, read: Callable[[], StreamState], elsewhere: Iterable[ReleasePlace] = ()) -> Stored:
    """Remove heartbeats and releases that may go (see `expendable`), and files that killed writers have left.

    What cannot be removed is logged, and tried again the next time.

    Folders of the stream are never followed when they are links: whoever may write to the control root could have
    anything removed that Airflow's user may remove.

    :param folder: the stream's folder.
    :param read: returns the newest state of the log; called after a place was listed.
    :param elsewhere: where releases are stored besides in the stream's folder.
    :return: what may go.
    :raises ControlUnavailable: the folder cannot be read or written now, or one of its folders is none.
    :raises StreamError: another place cannot be used.
    """

    def may_go(releases: frozenset[str]) -> frozenset[str]:
        return expendable(read(), Stored(releases=releases)).releases

    heartbeats = _clean_up_heartbeats(folder, read)
    releases = frozenset[str]().union(*(place.clean_up(may_go) for place in (FolderPlace(folder), *elsewhere)))
    return Stored(heartbeats, releases)


def clean_up_topic(store: TopicStore, read: Callable[[], StreamState], places: Iterable[ReleasePlace]) -> Stored:
    """Remove the heartbeats and releases that may go (see `expendable`) of a stream whose log is in Kafka.

    :param places: where releases are stored.
    :return: what may go.
    :raises ControlUnavailable: the topic cannot be read or written now.
    :raises StreamError: a place cannot be used.
    """

    def may_go(releases: frozenset[str]) -> frozenset[str]:
        return expendable(read(), Stored(releases=releases)).releases

    idle_ones = frozenset(store.idle_heartbeats(IDLE_SECONDS))
    heartbeats = expendable(read(), Stored(heartbeats=idle_ones)).heartbeats
    for incarnation in sorted(heartbeats):
        store.remove_heartbeat(incarnation)
    return Stored(heartbeats, frozenset[str]().union(*(place.clean_up(may_go) for place in places)))


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
            if name.startswith(".") or _incarnation(name) in gone:
                remove(name, heartbeats)
    return gone


def _incarnation(name: str) -> str:
    return name.removesuffix(".json")
