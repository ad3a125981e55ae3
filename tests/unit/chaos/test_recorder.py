"""What is recorded of a run: real checkpoint files, a real control log, real heartbeats, written as a run goes on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from chaos import recorder as module
from chaos.batches import Batch
from chaos.recorder import GAP_SECONDS, Evidence, Sighting, Span
from devstack import checkpoint_trees as trees
from devstack.control_folder import folder_of
from devstack.drivers import wait_for
from tests.support.control_root import new_log
from tests.support.story import NEW, OLD, RUNNING, write


def plan(query: Path, number: int, at: float, first: int = 10) -> None:
    path = trees.plan(query, number, trees.kafka(orders={0: first, 1: 20}))
    os.utime(path, (at, at))


@pytest.fixture
def query(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints" / "enrich"


@pytest.fixture
def log(tmp_path: Path) -> ControlLog:
    return new_log((tmp_path / "control").as_uri())


@pytest.fixture
def evidence(query: Path, log: ControlLog, tmp_path: Path) -> Evidence:
    return Evidence("127.0.0.1:1", {"enrich": query}, log, tmp_path)


Until = Callable[[Callable[[], object]], object]


@pytest.fixture
def until(evidence: Evidence) -> Iterator[Until]:
    """Records, and lets a test wait for what is recorded."""
    with evidence:
        yield lambda seen: wait_for("it to be recorded", seen, 60)


def test_a_checkpoint_that_is_not_there_yet_has_no_batches(evidence: Evidence) -> None:
    evidence.look()
    assert evidence.batches("enrich") == []


def test_batches_stay_known_when_spark_purges_them(evidence: Evidence, query: Path, until: Until) -> None:
    plan(query, 0, 100.0)
    trees.commit(query, 0, at=101.0)
    until(lambda: evidence.batches("enrich") == [Batch(0, {0: 10, 1: 20}, 100.0, 101.0)])
    (query / "offsets" / "0").unlink()
    (query / "commits" / "0").unlink()
    plan(query, 1, 102.0, 11)
    until(lambda: [batch.committed for batch in evidence.batches("enrich")] == [101.0, None])


def test_a_batch_is_planned_when_it_was_first(evidence: Evidence, query: Path) -> None:
    plan(query, 0, 100.0)
    evidence.look()
    plan(query, 0, 200.0)
    evidence.look()
    assert [batch.planned for batch in evidence.batches("enrich")] == [100.0]


def test_a_plan_that_is_just_being_written_is_read_again(evidence: Evidence, query: Path) -> None:
    trees.put(query / "offsets" / "0", "")
    evidence.look()
    assert evidence.batches("enrich") == []
    plan(query, 0, 100.0)
    evidence.look()
    assert len(evidence.batches("enrich")) == 1


def test_records_have_the_time_of_their_file_and_not_of_their_writer(
    evidence: Evidence, log: ControlLog, until: Until
) -> None:
    write(log, *RUNNING[:2])
    os.utime(folder_of(log) / "log" / f"{1:020d}.json", (50.0, 50.0))
    until(lambda: len(evidence.records) == 2)
    write(log, *RUNNING[2:])
    until(lambda: len(evidence.records) == len(RUNNING))
    assert [record.kind for record, _ in evidence.records] == [each.kind for each in RUNNING]
    assert evidence.records[0][1] == 50.0
    assert evidence.records[0][0].at == 100.0


def test_a_folder_that_is_away_or_torn_is_looked_at_again(
    evidence: Evidence, log: ControlLog, tmp_path: Path, until: Until
) -> None:
    (tmp_path / "control").rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").rename(tmp_path / "control")
    (folder_of(log) / "heartbeats" / f"{OLD}.json").write_bytes(b'{"counter": 1, "ph')
    log.beat(NEW, Heartbeat(counter=1, phase="standby"))
    until(lambda: NEW in evidence.sightings)
    assert OLD not in evidence.sightings
    log.beat(OLD, Heartbeat(counter=2, phase="running"))
    until(lambda: OLD in evidence.sightings)
    assert evidence.sightings[OLD].last.counter == 2
    assert len(evidence.sightings[OLD].spans) == 1
    assert evidence.sightings[NEW].spans == []


def test_a_control_folder_that_hangs_hangs_neither_the_batches_nor_the_end(
    query: Path, log: ControlLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "END_SECONDS", 0.1)
    pipes = [folder_of(log) / "log" / f"{1:020d}.json", folder_of(log) / "heartbeats" / f"{OLD}.json"]
    for pipe in pipes:
        os.mkfifo(pipe)  # whoever opens it waits for a writer
    with Evidence("127.0.0.1:1", {"enrich": query}, log, tmp_path) as evidence:
        plan(query, 0, 100.0)
        wait_for("the batch to be recorded", lambda: evidence.batches("enrich"), 60)
    for pipe in pipes:
        os.close(os.open(pipe, os.O_RDWR))  # lets go who waits there, and waits for nobody itself


def test_a_log_that_was_read_whole_has_no_gaps(evidence: Evidence, log: ControlLog) -> None:
    assert evidence.gaps() == []
    write(log, *RUNNING[:3])
    evidence.look()
    write(log, *RUNNING[3:])  # the stream still runs
    assert evidence.gaps() == []


def test_a_hole_in_the_log_and_what_is_behind_it(evidence: Evidence, log: ControlLog) -> None:
    write(log, *RUNNING)
    (folder_of(log) / "log" / f"{3:020d}.json").unlink()
    evidence.look()
    assert len(evidence.records) == 2
    hole, behind = evidence.gaps()
    assert hole == "The control log has no record 3, and goes to 6. Find out who removed it."
    assert behind.startswith("Nobody has read the records 4, 5, 6 of the control log")


def test_records_that_were_removed_or_changed_when_they_had_been_read(evidence: Evidence, log: ControlLog) -> None:
    write(log, *RUNNING)
    evidence.look()
    folder = folder_of(log) / "log"
    (folder / f"{6:020d}.json").unlink()
    changed = folder / f"{2:020d}.json"
    data = changed.read_bytes()
    changed.unlink()
    changed.write_bytes(data + b" ")
    assert evidence.gaps() == [
        "The control log has no record 6, and goes to 6. Find out who removed it.",
        "The records 2 of the control log were changed. Find out who wrote them.",
    ]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_look_that_raised_is_told(evidence: Evidence, log: ControlLog, until: Until) -> None:
    (folder_of(log) / "heartbeats" / f"{OLD}.json").write_bytes(b"{}")
    evidence.sightings = None  # type: ignore[assignment]  # so that the look raises
    log.beat(OLD, Heartbeat(counter=1, phase="running"))
    until(evidence.gaps)
    [says] = evidence.gaps()
    assert says.startswith("The recorder stopped looking (_look_at_heartbeats): AttributeError(")


def sighting(*seen: tuple[int, str, float]) -> list[Span]:
    found = Sighting()
    for counter, phase, at in seen:
        found.saw(Heartbeat(counter=counter, phase=phase), at)
    return found.spans


def test_a_driver_runs_from_its_first_heartbeat_that_says_so_to_its_last() -> None:
    beats = ((1, "standby", 1.0), (2, "running", 2.0), (3, "running", 3.0), (4, "releasing", 4.0), (5, "standby", 5.0))
    assert sighting(*beats) == [Span(2.0, 4.0)]
    assert sighting(*beats, (6, "running", 6.0), (7, "running", 7.0)) == [Span(2.0, 4.0), Span(6.0, 7.0)]


def test_the_heartbeat_of_a_dead_driver_says_nothing_more() -> None:
    assert sighting((1, "running", 1.0), (2, "running", 2.0), (2, "running", 90.0)) == [Span(1.0, 2.0)]


def test_a_heartbeat_that_a_frozen_driver_writes_when_it_wakes_is_a_span_of_its_own() -> None:
    woke = 2.0 + GAP_SECONDS
    assert sighting((1, "running", 1.0), (2, "running", 2.0), (3, "running", woke)) == [
        Span(1.0, 2.0),
        Span(woke, woke),
    ]
