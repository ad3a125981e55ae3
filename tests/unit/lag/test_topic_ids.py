"""A topic that is deleted and made anew is noticed by its id, also by a process that never saw the old one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from airflow_stream_provider.control.files import FilesStore
from airflow_stream_provider.lag.committed_offsets import CommittedOffsets
from airflow_stream_provider.lag.limits import Health, LagLimits
from airflow_stream_provider.lag.report import Alarm, Ceilings, LagReport, QueryLag
from airflow_stream_provider.lag.targets import stream_sources
from airflow_stream_provider.lag.topic_ids import REMEMBERED_QUERIES, note, read, recreated
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.record import MAX_BYTES, Kind, Record
from airflow_stream_provider.lifecycle.state import Deployment, Incarnation, IncarnationState, StreamState
from airflow_stream_provider.monitoring import samples
from airflow_stream_provider.monitoring.readings import keep
from tests.support.control_root import new_log
from tests.support.kafka_logs import KafkaLogs
from tests.support.lag_reports import measure

NEW = UUID(int=8)


@pytest.fixture
def store(tmp_path: Path) -> FilesStore:
    found = new_log(tmp_path.as_uri(), "orders").store
    assert isinstance(found, FilesStore)
    return found


def look(store: FilesStore, id: str = "spark-1", *, watch: bool = False, **kafka: Any) -> LagReport:
    """Measure as a process that has just begun; the watch also notes what it found."""
    progress = QueryProgress("q", id=id, batch=4, committed=({"t": {"0": 1}},))
    offsets = CommittedOffsets("q", Heartbeat(queries=(progress,)), noted=read(store))
    client: Any = KafkaLogs({0: (0, [9, 8, 7])}, **kafka)
    report = measure(client, [offsets])
    if watch:
        note(store, report)
    return report


def test_the_alarm_stays_until_the_query_has_a_new_checkpoint(store: FilesStore) -> None:
    assert LagLimits(verdicts=()).judge(look(store, watch=True)).health is Health.PASS
    for watch in (False, True, True):
        report = look(store, watch=watch, topic_id=NEW)
        (found,) = report.queries
        assert (found.recreated, found.alarms(Ceilings())) == (("t",), (Alarm.TOPIC_RECREATED,))
        judged = LagLimits(verdicts=()).judge(report)
        assert judged.health is Health.FAIL
        assert str(judged) == (
            "q: the topic t was deleted and made anew, so its offsets are those of other records, and some may have "
            "been skipped; give it a new checkpoint, and a file sink a new folder, or, once that is made good, "
            "upgrade it with `PATH: source`, with its checkpoint, in the form's `changed_checkpoints` (docs/lag.md)."
        )
        assert (found.records, found.complete) == (2, True), "the lag itself is well known"
    (fresh,) = look(store, "spark-2", watch=True, topic_id=NEW).queries
    assert fresh.alarms(Ceilings()) == ()
    assert read(store) == {"spark-1": {"t": str(UUID(int=7))}, "spark-2": {"t": str(NEW)}}


def test_it_ends_when_a_person_removes_the_file(store: FilesStore) -> None:
    look(store, watch=True)
    assert look(store, topic_id=NEW).queries[0].recreated
    (store.folder / "topics.json").unlink()
    assert look(store, watch=True, topic_id=NEW).queries[0].recreated == ()
    assert look(store).queries[0].recreated == ("t",)


def test_it_ends_when_a_driver_comes_up_whose_form_names_the_source_as_changed(
    store: FilesStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One cure for both memories: the drivers' records, and what the watch notes."""
    monkeypatch.setattr(samples, "append", lambda *given: None)
    reading: Any = SimpleNamespace(hook=SimpleNamespace(samples=None, control_log=SimpleNamespace(store=store)))
    progress = QueryProgress("q", id="spark-1", batch=4, committed=({"t": {"0": 1}},))
    anything: Any = None

    def recreated_in(
        named: str,
        its: UUID,
        now: UUID,
        *,
        watch: bool = False,
        again: bool = False,
        others: tuple[Incarnation, ...] = (),
    ) -> tuple[str, ...]:
        """What a look finds while a driver holds whose form names this, and that found this id in its rehearsal."""
        source = {"option": "subscribe", "topics": "t", "servers": ["b:9092"], "topic_ids": {"t": str(its)}}
        query = {"name": "q", "checkpoint": "s3a://b/q", "sources": ["kafka:subscribe=t"], "kafka_sources": [source]}
        holder = Incarnation("o-1.1", "o-1", IncarnationState.HOLDER, (query,), epoch=1, announced=5)
        declared = Record(Kind.DECLARED, {"again": again})
        held = Deployment("o-1", anything, declared, Policy(changed_checkpoints=(named,)))
        drivers = {each.id: each for each in (holder, *others)}
        state = StreamState(incarnations=drivers, deployments={"o-1": held}, last_holder="o-1.1")
        beats = {"o-1.1": Heartbeat(queries=(progress,))}
        sources = stream_sources("orders", "file:///control", state, beats, store)
        client: Any = KafkaLogs({0: (0, [9, 8, 7])}, topic_id=now)
        client.brokers, client.addresses = [{"host": "b", "port": 9092}], ("b:9092",)
        report = measure(client, sources)
        if watch:
            keep(reading, anything, report, [each.read() for each in sources])
        return report.queries[0].recreated

    old, other = UUID(int=7), UUID(int=9)
    assert recreated_in("", old, old, watch=True) == ()
    for named in ("", "s3a://b/q", "s3a://b/other: source"):
        assert recreated_in(named, NEW, NEW, watch=True) == ("t",), "a driver that was brought back is no cure"
    named = "s3://b/q/: source"
    assert recreated_in(named, NEW, NEW, again=True, watch=True) == ("t",), "the form is a copy"
    before = Incarnation("o-1.0", "o-1", IncarnationState.FENCED, epoch=1, announced=3)
    since = Incarnation("n", "n", IncarnationState.FENCED, epoch=2, announced=7)
    for each in (before, since):
        assert recreated_in(named, NEW, NEW, others=(each,), watch=True) == ("t",), "the form was for another hold"
    others = (replace(since, announced=3), replace(before, epoch=0))
    assert recreated_in(named, NEW, NEW, others=others) == (), "it is enough for `check`, too"
    assert recreated_in("s3a://b/q: source", NEW, other, watch=True) == ("t",), "made anew once more"
    assert read(store) == {"spark-1": {"t": str(NEW)}}
    assert recreated_in("", NEW, NEW) == (), "the next driver need not name it again"


def test_brokers_without_ids_and_queries_without_one_are_not_judged(store: FilesStore) -> None:
    look(store, watch=True, topic_id=UUID(int=0))
    look(store, "", watch=True)
    assert read(store) == {"spark-1": {}}
    look(store, watch=True)
    assert look(store, topic_id=UUID(int=0)).queries[0].recreated == ()


def test_topics_are_compared_only_where_both_ids_are_known() -> None:
    assert recreated({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "9", "d": "4"}) == ("b",)


@pytest.mark.parametrize(
    "damaged", [b"", b"{", b"[]", b'{"queries": []}', b'{"queries": {"a": []}}', b'{"a": 1}', b"\xff"]
)
def test_a_damaged_memory_begins_anew(store: FilesStore, damaged: bytes) -> None:
    store.put_topic_ids(damaged)
    assert read(store) == {}
    look(store, watch=True)
    assert read(store) == {"spark-1": {"t": str(UUID(int=7))}}


def test_what_is_known_is_not_written_again_and_the_oldest_are_forgotten(store: FilesStore) -> None:
    for number in range(REMEMBERED_QUERIES + 1):
        note(store, LagReport(1.0, (QueryLag("q", id=f"spark-{number}", topic_ids={"t": "1"}),)))
    kept = read(store)
    assert (len(kept), "spark-0" in kept, f"spark-{REMEMBERED_QUERIES}" in kept) == (REMEMBERED_QUERIES, False, True)
    before = (store.folder / "topics.json").stat().st_ino
    note(store, LagReport(1.0, (QueryLag("q", id="spark-9", topic_ids={"t": "2"}),)))
    assert (store.folder / "topics.json").stat().st_ino == before
    note(store, LagReport(1.0, (QueryLag("q", id="spark-9", topic_ids={"t": "2", "u": "3"}),)))
    assert json.loads((store.folder / "topics.json").read_text())["queries"]["spark-9"] == {"t": "1", "u": "3"}


def test_what_does_not_fit_into_the_file_is_forgotten(store: FilesStore) -> None:
    for number in range(3):
        topics = {f"{n:0249d}": "x" * 22 for n in range(1500)}
        note(store, LagReport(1.0, (QueryLag("q", id=f"spark-{number}", topic_ids=topics),)))
    assert (store.folder / "topics.json").stat().st_size <= MAX_BYTES
    assert "spark-2" in read(store)


def test_offsets_that_are_unknown_have_no_memory() -> None:
    assert CommittedOffsets("q", noted={"spark-1": {"t": "1"}}).read().noted == {}
