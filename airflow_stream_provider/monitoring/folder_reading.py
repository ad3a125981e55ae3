"""Read all streams of a folder in one look, each place in threads of its own and with deadlines."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from airflow_stream_provider.clusters import DriverView
from airflow_stream_provider.control.bounded import NoAnswer, NotReached, gather
from airflow_stream_provider.control.store import ControlRoot
from airflow_stream_provider.hooks.connections import cluster_connection, database_hook, kafka_extra
from airflow_stream_provider.hooks.control import control_root
from airflow_stream_provider.hooks.ledger import by_ledger, ledger_rows, unanswered
from airflow_stream_provider.lag.committed_offsets import Committed
from airflow_stream_provider.lag.limits import LagLook
from airflow_stream_provider.lag.report import LagReport
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlUnavailable, StreamError, says
from airflow_stream_provider.monitoring import health
from airflow_stream_provider.monitoring.readings import (
    ClusterLook,
    KafkaLook,
    LogGone,
    Reading,
    beats_again,
    read_committed,
    read_stream,
)
from airflow_stream_provider.spec.stream import StreamSpec

T = TypeVar("T")
log = logging.getLogger(__name__)

# Seconds that one stream, or the root itself, may take; and after which no other stream of a root is begun with, by
# what is done with them.
EACH_SECONDS = 4.0
READ_SECONDS = 20.0
WRITE_SECONDS = 8.0
# Side by side; more would only wait for each other in Python.
WIDTH = 4
# When so many streams of a root hang, no other one is tried.
MOST_HANGING = 24


class RootReads:
    """One control root during one look. A stream that hangs once is left alone for the rest of the look.

    :param url: control URL.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        # Here, in the thread that may read Airflow's connections.
        self._root: ControlRoot | StreamError = _tried(f"The control root {url}", lambda: control_root(url))
        # Its notes, and those of its streams that are looked at.
        self.notes: Mapping[str, bytes] = {}
        self.specs: Sequence[StreamSpec] = ()
        # Why nothing of the root can be read; empty: it can.
        self.problem = ""
        # One stream could not be reached, and too few others were asked to know whether that is the root's fault.
        self.unclear = False
        # Why the checkpoints of its streams cannot be read; empty: they can; None: nothing is known of that.
        self.checkpoint_problem: str | None = None
        # The finding for each stream: None for one that was never deployed, or why it cannot be read.
        self.found: dict[str, Reading | Exception | None] = {}
        # The calls that hang on the root and, apart from it, on checkpoints: where these hang, samples are written all
        # the same.
        self._left: dict[str, Future[Any]] = {}
        self._checkpoints_left: dict[str, Future[Any]] = {}

    def open(self) -> None:
        """Read the notes."""
        root = self._root
        found = root if isinstance(root, StreamError) else self._gather({"": partial(_open, root)}, EACH_SECONDS)[""]
        if isinstance(found, Exception):
            self.problem = str(found)
        else:
            self.notes = found

    def note(self, notes: Mapping[str, bytes]) -> bool:
        """Write those notes that differ; return whether all were written."""
        root = self._root
        if isinstance(root, StreamError) or self.problem:
            return False
        new = {name: note for name, note in notes.items() if self.notes.get(name) != note}
        found = self._gather({name: partial(root.note, name, note) for name, note in new.items()}, WRITE_SECONDS)
        return not self._failed(found, "noted")

    def forget(self, names: Collection[str]) -> None:
        """Remove notes."""
        if not isinstance(self._root, StreamError):
            calls = {name: partial(self._root.forget, name) for name in names}
            self._failed(self._gather(calls, WRITE_SECONDS), "forgotten")

    def _failed(self, found: Mapping[str, object], what: str) -> bool:
        errors = [f"{name}: {says(error)}" for name, error in found.items() if isinstance(error, Exception)]
        if errors:
            log.warning("%s: not all could be %s there. %s", self.url, what, errors[0])
        return bool(errors)

    def read(self) -> None:
        """Read the streams that are looked at."""
        root = self._root
        if isinstance(root, StreamError) or self.problem:
            self.found = {spec.name: ControlUnavailable(self.problem) for spec in self.specs}
            return
        calls = {spec.name: partial(read_stream, spec, root, self.notes) for spec in self.specs}
        self.found = self._gather(calls, READ_SECONDS)
        self._judge("read", self.found)

    def each(self, calls: Mapping[str, Callable[[], T]]) -> dict[str, T | Exception]:
        """Call these, each by the name of its stream, in threads; return what they returned or raised."""
        return self._gather(calls, WRITE_SECONDS)

    def checkpoints(self, calls: Mapping[str, Callable[[], T]]) -> dict[str, T | Exception]:
        """Call these, which read checkpoints, as `each` does, and say whether most of them hang."""
        left = self._checkpoints_left
        found = gather(calls, WRITE_SECONDS, EACH_SECONDS, width=WIDTH, most=MOST_HANGING, left=left)
        asked, hang = _asked_and(found, lambda each: isinstance(each, NoAnswer))
        if 2 * len(hang) <= len(asked):
            self.checkpoint_problem = "" if asked else None
        elif len(hang) > 1:
            self.checkpoint_problem = f"{len(hang)} of {len(asked)} checkpoints cannot be read. {found[hang[0]]}"
        return found

    def _gather(self, calls: Mapping[str, Callable[[], T]], seconds: float) -> dict[str, T | Exception]:
        return gather(calls, seconds, EACH_SECONDS, width=WIDTH, most=MOST_HANGING, left=self._left)

    def judge_writes(self, answers: Mapping[str, object]) -> None:
        """Say that the root cannot be written when that is so of most streams; `answers`: by stream."""
        if not self.problem:
            self._judge("written", answers)

    def _judge(self, what: str, found: Mapping[str, object]) -> None:
        asked, away = _asked_and(found, out_of_reach)
        # One stream alone does not tell: its own folder may be what hangs.
        most = 2 * len(away) > len(asked)
        self.unclear |= most and len(away) == 1
        if most and len(away) > 1:
            self.problem = f"{len(away)} of {len(asked)} streams cannot be {what} there. {found[away[0]]}"


def _tried(what: str, read: Callable[[], T]) -> T | StreamError:
    """Return what needs a connection of Airflow's, or why it cannot be had.

    :param what: which cannot be read then, for an error that is none of ours: other places are read all the same.
    """
    try:
        return read()
    except StreamError as error:
        return error
    except Exception as error:  # noqa: BLE001 - a backend of secrets may raise anything
        return StreamError(f"{what} cannot be read: {type(error).__name__}.")


def _connection(read: Callable[[str], Any], conn_id: str) -> Any:
    return _tried(f"The Airflow connection {conn_id!r}", partial(read, conn_id))


def _open(root: ControlRoot) -> Mapping[str, bytes]:
    root.check()
    return root.noted()


def open_roots(urls: Iterable[str]) -> dict[str, RootReads]:
    """Open control roots side by side, and read their notes; one that is away has a problem."""
    roots = {url: RootReads(url) for url in urls}
    side_by_side([each.open for each in roots.values()])
    return roots


def _asked_and(found: Mapping[str, object], holds: Callable[[object], bool]) -> tuple[list[str], list[str]]:
    """Return the streams that there was time to ask, and those of them of whose answer something holds."""
    asked = [name for name, each in found.items() if not isinstance(each, NotReached)]
    return asked, [name for name in asked if holds(found[name])]


def out_of_reach(found: object) -> bool:
    """Whether this is the error of a store that hangs or is away, rather than of what is in it."""
    return isinstance(found, (NoAnswer, ControlUnavailable)) and not isinstance(found, ControlLogDamaged)


# Seconds for each stage; whatever is asked there has a shorter deadline of its own.
STAGE_SECONDS = 40.0
_NO_TIME = NotReached("There was no time left to read it.")


class FolderReading:
    """The streams of a folder as one look finds them; Airflow's connections are read in the calling thread, each once.

    :param specs: the streams, by name, those first that must not be left out again.
    :param roots: their control roots, by URL, and others.
    :param ahead: seconds by which the look's clock is ahead of this machine's.
    """

    def __init__(self, specs: Mapping[str, StreamSpec], roots: Mapping[str, RootReads], ahead: float) -> None:
        self.specs = specs
        self._ahead = ahead
        kafkas = sorted({spec.kafka for spec in specs.values() if spec.kafka})
        self.kafkas = {each: KafkaLook(each, _connection(kafka_extra, each)) for each in kafkas}
        self.roots = roots
        for url, root in roots.items():
            root.specs = [spec for spec in specs.values() if spec.control == url]
        self.clusters: dict[str, ClusterLook] = {}
        # The readings of the streams that can be read, and why the others cannot.
        self.streams: dict[str, Reading] = {}
        self.failed: dict[str, str] = {}
        # Those of them whose control log has gone.
        self.gone: set[str] = set()
        # Those for which a stage had no time: neither well nor failed, and the first ones of the next look.
        self.not_reached: set[str] = set()
        # By stream: how far its queries are, and whether heartbeats have grown in the course of the look.
        self.committed: dict[str, Sequence[Committed] | Exception] = {}
        self.beaten: dict[str, Mapping[str, bool]] = {}

    @property
    def never_deployed(self) -> list[str]:
        """The streams that were never deployed."""
        return sorted(self.specs.keys() - self.streams.keys() - self.failed.keys() - self.not_reached)

    def read(self) -> None:
        """Read control logs, heartbeats and last samples, while the Kafkas are connected to."""
        side_by_side([*(each.connect for each in self.kafkas.values()), *(each.read for each in self.roots.values())])
        found = {name: each for root in self.roots.values() for name, each in dict(root.found).items()}
        for name in self.specs:
            each = found.get(name, _NO_TIME)
            if isinstance(each, Reading):
                self.streams[name] = replace(each, snapshot=replace(each.snapshot, at=each.snapshot.at + self._ahead))
            elif isinstance(each, NotReached):
                self.not_reached.add(name)
            elif each is not None:
                self.failed[name] = says(each)
                self.gone |= {name} if isinstance(each, LogGone) else set()
        clusters = sorted({each.spec.cluster for each in self.streams.values()})
        self.clusters = {each: ClusterLook(each, _connection(cluster_connection, each)) for each in clusters}

    def measure(self) -> None:
        """Read how far the queries are, then ask the Kafkas and the clusters, and read doubtful heartbeats again."""
        measured = {name: partial(read_committed, each) for name, each in self.streams.items() if each.spec.kafka}
        self.committed = self.each(measured, RootReads.checkpoints)
        self._read_ledgers()
        self.not_reached.update(name for name in self.streams if self.awaits_lag(name))
        kafkas = (partial(self._measure, kafka) for kafka in self.kafkas.values())
        clusters = (partial(self._ask, cluster) for cluster in self.clusters.values())
        side_by_side([*kafkas, *clusters, self._look_again])

    def _read_ledgers(self) -> None:
        """Read the ledgers of sinks, apart from all storages: a database that hangs is none of them."""
        known = {name: found for name, found in self.committed.items() if not isinstance(found, Exception)}
        named = {name: conn_id for name in known if (conn_id := self.specs[name].lag.ledger)}
        for conn_id in set(named.values()):
            _connection(database_hook, conn_id)  # imports its module, which may take longer than a read
        calls = {name: partial(ledger_rows, conn_id, name) for name, conn_id in named.items()}
        for name, rows in gather(calls, WRITE_SECONDS, EACH_SECONDS, width=WIDTH, most=MOST_HANGING).items():
            if isinstance(rows, NoAnswer | NotReached):
                self.committed[name] = unanswered(named[name], name)
            else:
                self.committed[name] = rows if isinstance(rows, Exception) else by_ledger(rows, known[name])

    def awaits_lag(self, name: str) -> bool:
        """Whether there was no time to read how far a stream's queries are."""
        return bool(self.specs[name].kafka) and isinstance(self.committed.get(name, _NO_TIME), NotReached)

    def each(
        self,
        calls: Mapping[str, Callable[[], T]],
        make: Callable[[RootReads, Mapping[str, Callable[[], T]]], dict[str, T | Exception]] = RootReads.each,
    ) -> dict[str, T | Exception]:
        """Call these, each by the name of its stream, in threads; return what they returned or raised.

        :param make: makes those of one control root; it has a deadline.
        """
        found: dict[str, T | Exception] = {}

        def of(root: RootReads) -> None:
            found.update(make(root, {spec.name: calls[spec.name] for spec in root.specs if spec.name in calls}))

        side_by_side(partial(of, root) for root in self.roots.values())
        return dict(found)

    def lag(self, name: str) -> LagLook | None:
        """Return what the look found of a stream's lag; None when the stream names no Kafka."""
        spec, at = self.specs[name], self.streams[name].snapshot.at
        if not spec.kafka:
            return None
        kafka = self.kafkas[spec.kafka]
        if kafka.problem:
            return LagLook(at, None, kafka.problem)
        offsets = self.committed.get(name, _NO_TIME)
        found = offsets if isinstance(offsets, Exception) else kafka.reports.get(name, TimeoutError())
        if isinstance(found, LagReport):
            return LagLook.of(replace(found, at=found.at + self._ahead))
        return LagLook(at, None, says(found))

    def views(self, reading: Reading) -> dict[str, DriverView]:
        """Return what the cluster says of a stream's drivers, by deployment."""
        known = self.clusters[reading.spec.cluster].drivers
        return {name: known[each] for name, each in reading.submissions.items() if each in known}

    def links(self, reading: Reading) -> dict[str, str]:
        """Return addresses of the driver that holds a stream, or held it last, as far as the look knows them."""
        view = self.views(reading).get(reading.deployment)
        beat = reading.snapshot.heartbeats.get(reading.snapshot.state.last_holder or "")
        ui = {"Spark UI": beat.ui_url} if beat and beat.ui_url else {}
        return {**(view.links if view else {}), **ui}

    # -- in threads --------------------------------------------------------------------------------------------------

    def _measure(self, kafka: KafkaLook) -> None:
        offsets = {
            name: each
            for name, each in self.committed.items()
            if self.specs[name].kafka == kafka.conn_id and not isinstance(each, Exception)
        }
        kafka.measure(offsets, {name: self.specs[name].lag.limits.moments for name in offsets})

    def _ask(self, cluster: ClusterLook) -> None:
        mine = (each for each in self.streams.values() if each.spec.cluster == cluster.conn_id)
        cluster.ask({submission for each in mine for submission in each.submissions.values()})

    def _look_again(self) -> None:
        doubtful = {name: health.doubtful(each.snapshot) for name, each in self.streams.items()}
        asked = {name: partial(beats_again, self.streams[name], who) for name, who in doubtful.items() if who}
        if asked:
            time.sleep(health.AGAIN_SECONDS)
            answers = self.each(asked)
            self.beaten = {name: each for name, each in answers.items() if not isinstance(each, Exception)}
            self.not_reached.update(name for name, each in answers.items() if isinstance(each, NotReached))


def side_by_side(calls: Iterable[Callable[[], None]]) -> None:
    """Call these in threads, and leave behind what hangs."""
    each = dict(enumerate(calls))
    for error in gather(each, STAGE_SECONDS, width=len(each)).values():
        if isinstance(error, Exception):
            log.error("A part of this look failed: %s", says(error), exc_info=error)
