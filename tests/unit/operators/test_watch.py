"""The watch against a real control log: what it keeps, whom it tells, what it brings back."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.sdk.exceptions import AirflowSkipException, TaskDeferred

from airflow_stream_provider.control import ControlLog, make_root
from airflow_stream_provider.hooks import connections
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lag import reader, topic_ids
from airflow_stream_provider.lag.report import LagReport, PartitionLag, PartitionState, QueryLag, Verdict
from airflow_stream_provider.lag.targets import NotedOffsets
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlUnavailable, StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.monitoring import samples
from airflow_stream_provider.operators import watch as watch_module
from airflow_stream_provider.operators.watch import WatchStreamOperator
from airflow_stream_provider.spec.stream import NotifySpec, StreamSpec
from tests.support.control_root import new_log
from tests.support.simulation.world import MemoryStore
from tests.support.story import HANDED_OVER, OLD, OLD_DEPLOYMENT, RUNNING, STARTED, STOPPED, acquired, failed, write


class Kafka:
    """What the broker says; how that is measured is tested on real ones."""

    def __init__(self) -> None:
        self.at = 1000.0
        self.records: int | None = 0
        self.sources: Any = None

    def measure(self, kafka: Any, extra: Any, sources: Any, moments: Any) -> LagReport:
        self.sources = sources
        if self.records is None:
            raise StreamError("No broker answers.")
        partition = PartitionLag(
            "in", 0, PartitionState.OK, committed=0, log_start=0, end=self.records, verdict=Verdict.OK
        )
        return LagReport(self.at, (QueryLag("q", (partition,), seconds=0.0, id="spark-1", topic_ids={"in": "7"}),))


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    found = Kafka()
    monkeypatch.setattr(reader, "measure_sources", found.measure)
    monkeypatch.setattr(connections, "kafka_extra", lambda name: {})
    return found


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    return StreamSpec.model_validate(
        {
            "name": "orders",
            "application": "a.py",
            "version": "2",
            "cluster": "no_such_connection",
            "kafka": "kafka",
            "control": f"file://{tmp_path}",
            "lag": {"max_records": 10},
            "watch": {"for_at_least": 0},
        }
    )


@pytest.fixture
def log(spec: StreamSpec) -> ControlLog:
    return new_log(spec.control, spec.name)


class Watch:
    """Runs the operator again and again, a driver beating in between."""

    def __init__(self, spec: StreamSpec, log: ControlLog) -> None:
        self.spec, self.log = spec, log
        self.told: list[Any] = []
        self.notify: list[Any] | None = [self.told.append]
        self.beats = 0
        # XCom of the watch's tries, newest last, as Airflow keeps it beyond a run.
        self.xcom: dict[str, Any] = {}

    def look(self, *, beating: bool = True, last_try: bool = True) -> Any:
        if beating:
            self.beats += 1
            self.log.beat(OLD, Heartbeat(counter=self.beats, at=time.time()))
        ti = SimpleNamespace(
            dag_id="orders__watch",
            run_id="r",
            task_id="watch",
            map_index=-1,
            try_number=4 if last_try else 1,
            max_tries=3,
            xcom_push=lambda key, value: self.xcom.update({key: json.loads(json.dumps(value))}),
            xcom_pull=lambda task_ids, key, include_prior_dates, map_indexes: self.xcom.get(key),
        )
        operator = WatchStreamOperator(task_id="watch", stream=self.spec, notify=self.notify)
        context: Any = {"ti": ti}
        return operator.execute(context)

    @property
    def kept(self) -> list[samples.LagSample]:
        return samples.read(self.log.store)


@pytest.fixture
def watch(spec: StreamSpec, log: ControlLog, kafka: Kafka) -> Watch:
    return Watch(spec, log)


def test_a_control_folder_that_is_not_mounted_is_an_error(spec: StreamSpec, kafka: Kafka) -> None:
    context: Any = {"ti": SimpleNamespace(try_number=1, max_tries=3)}
    with pytest.raises(ControlUnavailable, match="is not a control root"):
        WatchStreamOperator(task_id="watch", stream=spec).execute(context)


def test_a_stream_that_was_never_deployed_is_nothing_to_watch(spec: StreamSpec, kafka: Kafka) -> None:
    make_root(spec.control)
    with pytest.raises(AirflowSkipException, match="never been deployed"):
        Watch(spec, ControlLog(MemoryStore(), "orders")).look()


def test_each_look_is_kept(watch: Watch, kafka: Kafka) -> None:
    write(watch.log, *RUNNING)
    with pytest.raises(TaskDeferred):
        watch.look()  # nothing is known of the driver at the first look
    kafka.records = 7
    assert watch.look()["phase"] == "running"
    assert [(s.phase, s.version, s.records, s.counters) for s in watch.kept] == [
        ("running", "1", 0, {OLD: 1}),
        ("running", "1", 7, {OLD: 2}),
    ]
    assert watch.told == []


def test_the_topics_are_noted_for_the_next_look(watch: Watch, kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    write(watch.log, *RUNNING)
    with pytest.raises(TaskDeferred):
        watch.look()
    assert topic_ids.read(watch.log.store) == {"spark-1": {"in": "7"}}
    watch.look()
    (source,) = kafka.sources()
    assert isinstance(source, NotedOffsets)
    assert source.noted == {"spark-1": {"in": "7"}}
    (watch.log.store.folder / "topics.json").unlink()
    put = Mock(side_effect=ControlUnavailable("The disk is full.", next_step="Make room."))
    monkeypatch.setattr(type(watch.log.store), "put_topic_ids", put)
    watch.look()
    put.assert_called_once()
    assert [sample.records for sample in watch.kept] == [0, 0, 0], "the lag is kept and told of all the same"


def test_people_are_told_of_a_lag_once_and_once_that_it_is_over(watch: Watch, kafka: Kafka) -> None:
    write(watch.log, *RUNNING)
    with pytest.raises(TaskDeferred):
        watch.look()
    for records in (500, 600, 700, 3, 0):
        kafka.records = records
        watch.look()
    opened, closed = watch.told
    assert (opened.open, closed.open) == (True, False)
    assert opened.incident == closed.incident
    assert "orders is behind Kafka: 500 records" in opened.subject
    assert "q is behind by 500 records; 10 are allowed." in opened.text


def test_one_who_cannot_be_told_is_no_reason_to_leave_a_dead_stream_dead(watch: Watch) -> None:
    watch.spec = watch.spec.model_copy(update={"notify": (NotifySpec(call="my_company.pager.page"),)})
    (watch.log.store.folder / "lag.jsonl").write_bytes(b"")  # as a power cut may leave it
    write(watch.log, *RUNNING, failed(OLD))
    watch.notify = None
    with pytest.raises(Exception, match="no_such_connection"):
        watch.look()  # it goes as far as asking the cluster
    assert watch.log.records()[-1].kind == "declared"
    (sample,) = watch.kept
    assert sample.open_incidents.keys() == sample.incidents["down"].acknowledged.keys() - {"log"} | {"down"}


def test_a_driver_that_is_silent_is_told_of_whatever_the_schedule_is(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(watch.log, *RUNNING)
    now = time.time()
    watch.log.beat(OLD, Heartbeat(counter=1))
    for look in range(9):
        monkeypatch.setattr(time, "time", lambda at=now + 10.0 * look: at)
        with pytest.raises(TaskDeferred):
            watch.look(beating=False)
    (alert,) = watch.told
    assert (alert.kind, alert.open) == ("down", True)
    assert "has given no sign of life for 1 min" in alert.text


def test_a_holder_whose_heartbeat_is_damaged_is_looked_at_like_one_without(watch: Watch, kafka: Kafka) -> None:
    """A driver that beats replaces it at once; that of a dead one stays as the crash has left it."""
    write(watch.log, *RUNNING)
    watch.log.store.put_heartbeat(OLD, b"")
    for beating in (False, True):
        with pytest.raises(TaskDeferred):
            watch.look(beating=beating)
    assert watch.look()["holder"] == OLD_DEPLOYMENT
    assert [sample.counters for sample in watch.kept] == [{}, {OLD: 1}, {OLD: 2}]


def test_the_folder_is_cleaned_up_once_an_hour(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    write(watch.log, *RUNNING)
    now, looks = 3600.0 * 500_000, []
    monkeypatch.setattr(StreamHook, "clean_up", lambda self: looks.append(time.time() - now))
    for at in (0, 60, 3540, 3600, 3660, 4 * 3600):
        monkeypatch.setattr(time, "time", lambda at=now + at: at)
        with contextlib.suppress(TaskDeferred):
            watch.look()
    assert looks == [0, 3600, 4 * 3600]


def test_a_kafka_that_is_away_is_not_zero_and_not_the_end_of_the_watch(watch: Watch, kafka: Kafka) -> None:
    write(watch.log, *RUNNING)
    kafka.records = None
    with pytest.raises(TaskDeferred):
        watch.look()
    watch.look()
    assert [(sample.records, sample.problem) for sample in watch.kept] == [(None, "No broker answers.")] * 2


def test_a_stream_that_has_died_is_told_and_started_again(watch: Watch) -> None:
    write(watch.log, *RUNNING, failed(OLD))
    with pytest.raises(Exception, match="no_such_connection"):
        watch.look()  # it goes as far as asking the cluster
    assert watch.log.records()[-1].kind == "declared"
    (alert,) = watch.told
    assert (alert.kind, alert.open) == ("down", True)
    assert re.search(r"Nobody runs it \(failed; the last sign of life is \d+ s old\)\. it broke", alert.text)


def test_a_stream_that_somebody_stopped_is_left_alone(watch: Watch, kafka: Kafka) -> None:
    write(watch.log, *STOPPED)
    kafka.records = 10**6
    with pytest.raises(AirflowSkipException, match="Nobody is to run it"):
        watch.look()
    assert watch.told == []
    assert len(watch.kept) == 1


def test_a_silent_driver_is_not_fenced_by_a_look(watch: Watch) -> None:
    write(watch.log, *RUNNING)
    with pytest.raises(TaskDeferred):
        watch.look()
    with pytest.raises(TaskDeferred) as deferred:
        watch.look(beating=False)
    condition = deferred.value.trigger.serialize()[1]["condition"]
    assert (condition["condition"], condition["counters"]) == ("SignsOfLife", {OLD: 1})
    assert not any(record.kind == "fenced" for record in watch.log.records())


@pytest.fixture
def away(watch: Watch) -> Callable[[], None]:
    """Take the control folder away; the result brings it back."""
    write(watch.log, *RUNNING)
    with pytest.raises(TaskDeferred):
        watch.look()
    there = watch.log.store.folder
    hidden = there.with_name("hidden")
    (there / "log").rename(hidden)

    def back() -> None:
        hidden.rename(there / "log")

    return back


def test_people_are_told_once_that_the_watch_itself_fails_and_that_it_works_again(
    watch: Watch, away: Callable[[], None]
) -> None:
    for _ in range(3):
        with pytest.raises(ControlUnavailable):
            watch.look(beating=False)
    (opened,) = watch.told
    assert (opened.kind, opened.open) == ("watch", True)
    assert opened.subject.startswith("orders: The watch cannot look at it, and would not notice its end. ")
    assert "There is no control log in" in opened.text
    away()
    watch.look()
    watch.look()
    _, closed = watch.told
    assert (closed.kind, closed.open, closed.incident) == ("watch", False, opened.incident)
    assert closed.subject == "The watch of orders works again"


def test_a_stream_whose_folder_has_vanished_is_not_one_that_was_never_deployed(watch: Watch) -> None:
    write(watch.log, *RUNNING)
    with pytest.raises(TaskDeferred):
        watch.look()
    folder = watch.log.store.folder
    folder.rename(folder.with_name("elsewhere"))
    for _ in range(2):
        with pytest.raises(ControlUnavailable, match="an earlier run of this watch has seen the stream there"):
            watch.look(beating=False)
    (opened,) = watch.told
    assert (opened.kind, opened.open) == ("watch", True)
    folder.with_name("elsewhere").rename(folder)
    watch.look()
    assert [alert.open for alert in watch.told] == [True, False]


@pytest.mark.parametrize("records", [HANDED_OVER, STOPPED])
@pytest.mark.parametrize("bad", [4, None])
def test_the_watch_does_nothing_on_a_part_of_a_log_and_people_are_told(
    watch: Watch, records: list[Record], bad: int | None
) -> None:
    """The file of a record is damaged: that of an earlier request, or the last one."""
    write(watch.log, *records)
    last = watch.log.state.seq
    (watch.log.store.folder / "log" / f"{bad or last:020d}.json").write_bytes(b"torn")
    with pytest.raises(ControlLogDamaged):
        watch.look(beating=False)
    (opened,) = watch.told
    assert opened.kind == "watch"
    assert f"Record {bad or last} of the control log of orders cannot be read" in opened.text
    assert watch.log.store.read(last + 1) is None


def test_the_watch_does_nothing_on_an_older_copy_of_the_log(watch: Watch) -> None:
    """In which it was stopped, say, though a driver has read that it runs: nobody would be told that it is down."""
    write(watch.log, *STARTED)
    watch.log.beat(OLD, Heartbeat(counter=7, seq=len(RUNNING), epoch=1))
    with pytest.raises(ControlLogDamaged):
        watch.look(beating=False)
    (opened,) = watch.told
    assert f"its driver {OLD} has read record {len(RUNNING)} (epoch 1)" in opened.text
    assert watch.log.store.read(len(STARTED) + 1) is None


def test_people_are_told_of_records_that_break_the_rules(watch: Watch) -> None:
    write(watch.log, *RUNNING)
    with pytest.raises(TaskDeferred):
        watch.look()
    watch.log.store.create(len(RUNNING) + 1, acquired(OLD, "forged", 7).to_json())
    for _ in range(2):
        watch.look()
    (opened,) = watch.told
    assert (opened.kind, opened.open) == ("log", True)
    assert "1 record of its control log break the rules" in opened.text


def test_a_look_that_will_be_tried_again_disturbs_nobody(watch: Watch, away: Callable[[], None]) -> None:
    with pytest.raises(ControlUnavailable):
        watch.look(beating=False, last_try=False)
    assert watch.told == []


def test_the_text_of_a_foreign_error_is_not_sent(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> Any:
        raise RuntimeError("https://user:hunter2@example.org")

    monkeypatch.setattr(reader, "measure_sources", broken)
    write(watch.log, *RUNNING)
    with pytest.raises(RuntimeError):
        watch.look()
    (alert,) = watch.told
    assert "RuntimeError; see the task's log." in alert.text
    assert "hunter2" not in alert.text


def test_people_are_told_after_the_stream_was_declared_again(watch: Watch) -> None:
    write(watch.log, *RUNNING, failed(OLD))
    seen: list[str] = []
    watch.notify = [lambda alert: seen.append(watch.log.records()[-1].kind)]
    with pytest.raises(Exception, match="no_such_connection"):
        watch.look()
    assert seen == ["declared"]


def test_what_goes_wrong_in_telling_is_not_how_the_try_ends(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(store: Any, sample: Any) -> None:
        raise OSError("https://hooks.example.org/hunter2")

    monkeypatch.setattr(watch_module, "amend", full)
    write(watch.log, *RUNNING, failed(OLD))
    with pytest.raises(Exception, match="no_such_connection"):
        watch.look()
    assert "hunter2" not in caplog.text


def test_what_another_version_left_of_the_watch_is_begun_anew(watch: Watch, away: Callable[[], None]) -> None:
    watch.xcom["watch_incident"] = {"of": "another version"}
    with pytest.raises(ControlUnavailable):
        watch.look(beating=False)
    assert [alert.kind for alert in watch.told] == ["watch"]


def test_the_sample_that_is_kept_says_who_was_told(watch: Watch) -> None:
    write(watch.log, *RUNNING, failed(OLD))
    with pytest.raises(Exception, match="no_such_connection"):
        watch.look()
    (sample,) = watch.kept
    assert len(sample.incidents["down"].acknowledged) == 2
