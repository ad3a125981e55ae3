"""The exit codes, and one line for each stream; what the commands print is in test_commands.py."""

from __future__ import annotations

import json
import re
import threading
import time
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.cli import status
from airflow_stream_provider.cli.status import STALE_SECONDS, Code, StreamStatus, code_of_sample, status_of
from airflow_stream_provider.control import make_root
from airflow_stream_provider.control.files import FilesStore
from airflow_stream_provider.control.files_root import SampleFile
from airflow_stream_provider.lag.limits import Health, LagLook, Streaks
from airflow_stream_provider.lag.report import GroupVerdict, LagReport
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, OffsetRange, QueryHealth, QueryProgress
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.saved_state import dump
from airflow_stream_provider.monitoring.incidents import Incident, IncidentState
from airflow_stream_provider.monitoring.life import What
from airflow_stream_provider.monitoring.samples import LagSample, QuerySample, append
from airflow_stream_provider.spec.stream import StreamSpec
from devstack.control_folder import folder_of
from tests.support import snapshots
from tests.support.control_root import log_of
from tests.support.lag_reports import partition, report
from tests.support.more_time import in_time
from tests.support.story import (
    HANDED_OVER,
    NEW,
    OLD,
    OLD_DEPLOYMENT,
    PREPARED,
    RUNNING,
    STARTED,
    STOPPED,
    TAKEN_BACK,
    acquired,
    declared,
    failed,
    fenced,
    play,
    record,
    requested,
    retired,
    wanted,
    write,
)


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    control = f"file://{tmp_path}"
    fields = {"name": "orders", "application": "a.py", "version": "1", "cluster": "c", "control": control, "kafka": "k"}
    return StreamSpec.model_validate({**fields, "lag": {"max_records": 10}})


@pytest.mark.parametrize(
    ("codes", "worst"),
    [
        ([], Code.UNKNOWN),
        ([Code.WELL], Code.WELL),
        ([Code.WELL, Code.WARN], Code.WARN),
        ([Code.UNKNOWN, Code.WARN], Code.UNKNOWN),
        ([Code.UNKNOWN, Code.BAD, Code.WELL], Code.BAD),
    ],
)
def test_a_stream_that_is_bad_outweighs_one_that_is_unknown(codes: list[Code], worst: Code) -> None:
    assert Code.worst(codes) is worst


@pytest.mark.parametrize(("health", "verdict"), list(product(Health, GroupVerdict)))
def test_a_code_is_the_health_and_a_warning_of_burrows(health: Health, verdict: GroupVerdict) -> None:
    wanted = {Health.PASS: Code.WELL, Health.FAIL: Code.BAD, Health.UNKNOWN: Code.UNKNOWN}[health]
    if health is Health.PASS and verdict is GroupVerdict.WARN:
        wanted = Code.WARN
    assert Code.of(health, verdict) is wanted
    assert Code.of(health, verdict.value) is wanted


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (report(partition(5)), Code.WELL),
        (report(partition(11)), Code.BAD),
        (report(partition(None)), Code.UNKNOWN),
        (None, Code.UNKNOWN),
    ],
)
def test_a_look_is_judged_by_the_streams_limits(spec: StreamSpec, found: LagReport | None, code: Code) -> None:
    look = LagLook.of(found) if found else LagLook.failed(StreamError("Away."))
    assert status.code_of_look(spec, look) is code


def sample(phase: str = "running", verdict: str = "OK", **more: object) -> LagSample:
    fields: dict[str, Any] = {"health": Health.PASS, "queries": {"q": QuerySample(5, 3.0, verdict)}, **more}
    return LagSample(time.time(), phase, "1", **fields)


def opened(kind: str) -> dict[str, IncidentState]:
    return {kind: IncidentState(Streaks(), Incident("orders-1", 1.0))}


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (sample(), Code.WELL),
        (sample(verdict="WARN"), Code.WARN),
        (sample(verdict="WARN", health=Health.FAIL), Code.BAD),
        (sample(health=Health.FAIL), Code.BAD),
        (sample(health=Health.UNKNOWN, problem="Away."), Code.UNKNOWN),
        (sample(health=Health.UNKNOWN), Code.WELL),  # every lag is known, only the retention is not
        (sample(incidents=opened("down")), Code.BAD),
        (sample(incidents=opened("lag")), Code.BAD),
        (sample("stopped", health=Health.FAIL, incidents=opened("lag")), Code.WELL),
    ],
)
def test_a_sample_is_as_bad_as_what_the_watch_has_opened(spec: StreamSpec, found: LagSample, code: Code) -> None:
    assert code_of_sample(spec, found) is code


def test_without_kafka_only_incidents_are_bad(spec: StreamSpec) -> None:
    without = spec.model_copy(update={"kafka": None})
    assert code_of_sample(without, sample(health=Health.UNKNOWN, queries={})) is Code.WELL
    assert code_of_sample(without, sample(incidents=opened("down"))) is Code.BAD


@pytest.mark.parametrize(
    ("records", "phase", "version", "code"),
    [
        ([], "empty", "", Code.WELL),
        (STARTED, "empty", "", Code.WELL),
        (RUNNING, "silent", "1", Code.BAD),
        (STOPPED, "stopped", "", Code.WELL),
        ([*RUNNING, fenced(OLD)], "down", "", Code.BAD),
        ([*RUNNING, failed(OLD)], "failed", "", Code.BAD),
        (
            [*RUNNING, fenced(OLD), wanted("go"), *snapshots.up(NEW, "go"), requested("x", NEW, wish="go")],
            "starting",
            "",
            Code.BAD,
        ),
    ],
)
def test_a_stream_without_a_sample_is_judged_by_its_phase(
    spec: StreamSpec, records: list[Record], phase: str, version: str, code: Code
) -> None:
    log_of(spec.control, *records)
    found = status_of(spec)
    assert (found.phase, found.version, found.sample, found.code) == (phase, version, None, code)
    event = found.event.to_json() if found.event else None
    assert found.to_json() == {
        "stream": "orders",
        "phase": phase,
        "silent_seconds": None,
        "version": version,
        "holder": found.holder,
        "since": found.since,
        "event": event,
        "wanted": status.wanted(play(records)),
        "queries": {},
        "lag": None,
        "problem": "",
        "code": int(code),
    }


def test_a_query_that_fails_is_told_with_its_error_and_the_offsets_of_its_batch(spec: StreamSpec) -> None:
    log = log_of(spec.control, *RUNNING)
    ranges = (OffsetRange("orders-3", "100", "250"),)
    ill = QueryHealth("retrying", 90.0, 6, "ValueError: bad", batch=18, ranges=ranges, note="A log ended earlier.")
    queries = (QueryProgress("enrich", health=QueryHealth()), QueryProgress("alerts", health=ill), QueryProgress("old"))
    log.beat(OLD, Heartbeat(counter=1, at=time.time(), queries=queries))
    found = status_of(spec)
    assert (found.code, found.problem) == (
        Code.BAD,
        "The query alerts has failed for 1 min 30 s, 6 times since it last got on: ValueError: bad. Batch 18 reads "
        "orders-3 from 100 to 250. A log ended earlier.",
    )
    said = json.loads(json.dumps(found.to_json()))["queries"]
    assert (said["enrich"]["state"], said["old"]) == ("running", None)
    assert said["alerts"]["ranges"] == [{"source": "orders-3", "start": "100", "end": "250"}]


@pytest.mark.parametrize(
    ("records", "holder", "since", "what", "reason"),
    [
        ([], "", None, None, ""),
        (STARTED, "", None, What.STOOD_BY, ""),
        (RUNNING, OLD, 100.0, What.STARTED, "a person wants it"),
        (HANDED_OVER, NEW, 100.0, What.HANDED_OVER, "a person wants it"),
        (TAKEN_BACK, OLD, 100.0, What.TAKEN_BACK, "The standby did not take over in time."),
        (STOPPED, "", None, What.STOPPED, "a person wants it"),
        ([*RUNNING, failed(OLD)], "", None, What.FAILED, "it broke: Boom"),
    ],
)
def test_it_says_who_holds_since_when_and_what_happened_last(
    spec: StreamSpec, records: list[Record], holder: str, since: float | None, what: What | None, reason: str
) -> None:
    log_of(spec.control, *records)
    found = status_of(spec)
    assert (found.holder, found.since) == (holder, since)
    assert (found.event.what if found.event else None) == what
    assert (found.event.reason if found.event else "") == reason


def test_of_a_long_life_only_the_last_records_are_read(spec: StreamSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(spec.control, *RUNNING, *(declared(f"orders-9-{number:04}") for number in range(300)))
    log.save()
    numbers: list[int] = []
    read = FilesStore.read
    monkeypatch.setattr(FilesStore, "read", lambda self, seq: numbers.append(seq) or read(self, seq))
    found = status_of(spec)
    assert (found.holder, found.since) == (OLD, 100.0)
    assert found.event is not None
    assert found.event.deployment == "orders-9-0299"
    assert len(numbers) < 30


def test_what_happened_last_is_nothing_from_before_a_record_that_is_lost(spec: StreamSpec) -> None:
    """As long as the state is saved, that record harms nobody."""
    log = log_of(spec.control, *PREPARED)
    log.store.put_saved_state(dump(log.refresh()))
    write(log, requested("up", NEW))
    (folder_of(log) / "log" / f"{4:020}.json").unlink()
    found = status_of(spec)
    assert (found.phase, found.event.what if found.event else None) == ("handing_over", What.ASKED)


def test_records_that_nobody_obeys_are_named(spec: StreamSpec) -> None:
    log = log_of(spec.control, *STOPPED)
    log.store.create(len(STOPPED) + 1, acquired(NEW, "forged", 7).to_json())
    log.store.create(len(STOPPED) + 2, b"garbage")
    after = record("noted").numbered(len(STOPPED) + 3, Record.read(b"garbage", 0).nonce)
    log.store.create(len(STOPPED) + 3, after.to_json())
    found = status_of(spec)
    assert (found.phase, found.code) == ("stopped", Code.WARN)
    first = len(STOPPED) + 1
    assert "2 records of its control log" in found.problem
    assert f"{first} (acquired: only-the-appointed), {first + 1} (unreadable: readable)" in found.problem


def test_a_damaged_log_is_no_status(spec: StreamSpec) -> None:
    log = log_of(spec.control, *RUNNING)
    (folder_of(log) / "log" / f"{4:020d}.json").write_bytes(b"garbage")
    found = status_of(spec)
    assert (found.phase, found.code) == ("", Code.UNKNOWN)
    assert "Record 4 of the control log of orders cannot be read" in found.problem


def test_a_log_that_is_older_than_its_heartbeats_is_no_status_either(spec: StreamSpec) -> None:
    log = log_of(spec.control, *STOPPED)
    log.beat(OLD, Heartbeat(seq=len(STOPPED) + 1))
    found = status_of(spec)
    assert found.code == Code.UNKNOWN
    assert "was put back from an older copy" in found.problem


@pytest.mark.parametrize(
    ("age", "schedule", "kafka", "code"),
    [
        (0.0, 60, "k", Code.BAD),
        (STALE_SECONDS + 5, 60, "k", Code.UNKNOWN),
        (STALE_SECONDS + 5, 60, None, Code.WELL),
        (STALE_SECONDS + 5, None, "k", Code.UNKNOWN),
        (7000.0, 3600, "k", Code.BAD),
        (7300.0, 3600, "k", Code.UNKNOWN),
    ],
)
def test_only_a_sample_of_late_says_how_it_is(
    spec: StreamSpec, age: float, schedule: float | None, kafka: str | None, code: Code
) -> None:
    log = log_of(spec.control, *RUNNING)
    log.beat(OLD, Heartbeat(at=time.time()))
    append(SampleFile(folder_of(log)), LagSample(time.time() - age, "running", health=Health.FAIL, problem="Because."))
    watch = spec.watch.model_copy(update={"schedule": schedule})
    found = status_of(spec.model_copy(update={"kafka": kafka, "watch": watch}))
    assert (found.phase, found.code) == ("running", code)
    assert found.problem.startswith("Because.")
    assert ("s old, and says nothing of now" in found.problem) == (code is not Code.BAD)


@pytest.mark.parametrize(("kafka", "sampled"), [("k", True), ("k", False), (None, False)])
def test_a_driver_that_has_been_silent_for_long_is_not_called_running(
    spec: StreamSpec, kafka: str | None, sampled: bool
) -> None:
    log = log_of(spec.control, *RUNNING)
    log.beat(OLD, Heartbeat(counter=7, at=time.time() - 2400.0))
    if sampled:
        append(SampleFile(folder_of(log)), sample())
    found = status_of(spec.model_copy(update={"kafka": kafka}))
    assert (found.phase, found.code) == ("silent", Code.BAD)
    assert found.to_json()["phase"] == "silent"
    assert found.to_json()["silent_seconds"] == pytest.approx(2400.0, abs=60.0)


@pytest.mark.parametrize(
    ("age", "said", "problem", "code"),
    [
        (0.0, {"message": "The runtime cannot go on: 'a'"}, r"^The runtime cannot go on: 'a'$", Code.WELL),
        (0.0, {"rewind": "Nobody does it any more.", "rewind_undone": True}, r"^Nobody does it any more\.$", Code.WARN),
        (31.0, {}, r"no sign of life for \d+ s, longer than its lease of 30 s\.", Code.WARN),
    ],
    ids=["it says what goes wrong", "it left a rewind undone", "it is silent for longer than its lease"],
)
def test_what_the_driver_that_holds_says_is_shown(
    spec: StreamSpec, age: float, said: dict[str, Any], problem: str, code: Code
) -> None:
    log = log_of(spec.control, *RUNNING)
    log.beat(OLD, Heartbeat(at=time.time() - age, **said))
    found = status_of(spec.model_copy(update={"kafka": None}))
    assert (found.phase, found.code) == ("running", code)
    assert re.search(problem, found.problem)


@pytest.mark.parametrize("beat", [b"{", b'{"counter": 1, "at": 1' + b"0" * 400 + b"}"], ids=["torn", "beyond numbers"])
def test_a_damaged_heartbeat_is_no_sign_of_life(spec: StreamSpec, beat: bytes) -> None:
    log = log_of(spec.control, *RUNNING)
    log.store.put_heartbeat(OLD, beat)
    found = status_of(spec)
    assert (found.phase, found.code, found.silent_seconds) == ("silent", Code.BAD, None)


def test_what_nobody_thought_of_is_a_line_of_its_own(spec: StreamSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    log_of(spec.control, *RUNNING)
    monkeypatch.setattr("airflow_stream_provider.cli.status.sign_of_life", lambda *_: 1 / 0)
    found = status_of(spec)
    assert (found.stream, found.phase, found.code) == ("orders", "", Code.UNKNOWN)
    assert "Its status is unknown: ZeroDivisionError" in found.problem


def test_what_cannot_be_read_is_a_line_of_its_own(spec: StreamSpec) -> None:
    missing = status_of(spec)
    assert (missing.stream, missing.code, missing.phase) == ("orders", Code.UNKNOWN, "")
    assert "is not a control root" in missing.problem
    make_root(spec.control)
    assert "There is no control log" in status_of(spec).problem
    broken = status_of(SpecError("It is broken.", file="/streams/broken.yaml"))
    assert broken == StreamStatus("broken", problem="It is broken.")
    assert status_of(SpecError("It is broken.")).stream == "?"


def test_a_stream_that_does_not_answer_keeps_no_other_one_waiting(
    spec: StreamSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dead mount lets a read hang for ever, and what is down is the first question of a night."""
    dead, over = spec.model_copy(update={"name": "dead"}), threading.Event()
    broken = SpecError("It is no YAML.", file="/dags/streams/broken.yaml")

    def reads(of: StreamSpec | SpecError) -> StreamStatus:
        if of is dead:
            over.wait(600)
        return status_of(of)

    monkeypatch.setattr(status, "status_of", reads)

    def read(seconds: float) -> bool:
        monkeypatch.setattr(status, "EACH_SECONDS", seconds)
        found = status.statuses([dead, spec, broken])
        assert [line.stream for line in found] == ["dead", "orders", "broken"]
        assert [line.code for line in found] == [Code.UNKNOWN] * 3
        says = f"It could not be read within {seconds:.0f} s: its folder does not answer."
        return found[0].problem.startswith(says) and "does not answer" not in found[1].problem + found[2].problem

    try:
        in_time(read)
    finally:
        over.set()


MORE = [*snapshots.BOTH, wanted("take", family="new", by="person:ann")]
LEFT = [*snapshots.STOPPED, retired(OLD_DEPLOYMENT), wanted("off", "leave")]
SINCE = "by airflow (a person wants it), since 1970-01-01 00:01:40 UTC"
HOLDS, STANDS_BY = f"Release 1 is to hold the stream, {SINCE}", f"Release 1 is to stand by, {SINCE}"


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ([], ""),
        ([wanted("go")], f"{HOLDS}, and it is not so yet."),
        (snapshots.RUNNING, f"{HOLDS}, and it is so."),
        (snapshots.BOTH, f"{HOLDS}, and it is so. {STANDS_BY}, and it is so."),
        (snapshots.BOTH[:-1], f"{HOLDS}, and it is so. {STANDS_BY}, and it is not so yet."),
        (MORE, f"{HOLDS.replace('airflow', 'person:ann')}, and it is not so yet."),
        (snapshots.UPGRADED, f"{HOLDS}, and it is so."),
        (snapshots.STOPPED, f"No driver is to hold the stream, {SINCE}, and it is not so yet."),
        (LEFT, f"No driver is to hold the stream any more, {SINCE}, and it is so."),
    ],
)
def test_what_is_wanted_by_whom_since_when_and_whether_it_is_so_is_one_line(records: list[Record], says: str) -> None:
    assert status.wanted(play(records)) == says
