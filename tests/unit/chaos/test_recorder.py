"""What is recorded of a run: real checkpoint files, a real control log, real heartbeats, written as a run goes on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_stream_provider.checkpoint.files import Place
from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from chaos import recorder as module
from chaos.batches import Batch
from chaos.folder_log import FolderLog
from chaos.recorder import Evidence
from devstack import checkpoint_trees as trees
from devstack.control_folder import folder_of
from devstack.drivers import wait_for
from tests.support.story import OLD, RUNNING, write


def plan(query: Path, number: int, at: float, first: int = 10) -> None:
    path = trees.plan(query, number, trees.kafka(orders={0: first, 1: 20}))
    os.utime(path, (at, at))


@pytest.fixture
def query(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints" / "enrich"


@pytest.fixture
def evidence(query: Path, log: ControlLog, tmp_path: Path) -> Evidence:
    return evidence_of(query, log, tmp_path)


def evidence_of(query: Place, log: ControlLog, folder: Path) -> Evidence:
    return Evidence("127.0.0.1:1", {"enrich": query}, folder / "releases", FolderLog(folder_of(log)), folder)


Until = Callable[[Callable[[], object]], object]


@pytest.fixture
def until(evidence: Evidence) -> Iterator[Until]:
    """Records, and lets a test wait for what is recorded."""
    with evidence:
        yield lambda seen: wait_for("it to be recorded", seen, 60)


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


def test_records_have_the_time_of_their_file_and_not_of_their_writer(
    evidence: Evidence, log: ControlLog, until: Until
) -> None:
    write(log, *RUNNING[:2])
    os.utime(folder_of(log) / "log" / f"{1:020d}.json", (50.0, 50.0))
    until(lambda: len(evidence.log.records) == 2)
    write(log, *RUNNING[2:])
    until(lambda: len(evidence.log.records) == len(RUNNING))
    assert [record.kind for record, _ in evidence.log.records] == [each.kind for each in RUNNING]
    assert evidence.log.records[0][1] == 50.0
    assert evidence.log.records[0][0].at == 100.0


def test_a_control_folder_that_hangs_hangs_neither_the_batches_nor_the_end(
    query: Path, log: ControlLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "END_SECONDS", 0.1)
    pipes = [folder_of(log) / "log" / f"{1:020d}.json", folder_of(log) / "heartbeats" / f"{OLD}.json"]
    for pipe in pipes:
        os.mkfifo(pipe)  # whoever opens it waits for a writer
    with evidence_of(query, log, tmp_path) as evidence:
        plan(query, 0, 100.0)
        wait_for("the batch to be recorded", lambda: evidence.batches("enrich"), 60)
    for pipe in pipes:
        os.close(os.open(pipe, os.O_RDWR))  # lets go who waits there, and waits for nobody itself


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_look_that_raised_is_told(evidence: Evidence, log: ControlLog, until: Until) -> None:
    (folder_of(log) / "heartbeats" / f"{OLD}.json").write_bytes(b"{}")
    evidence.log.sightings = None  # type: ignore[assignment]  # so that the look raises
    log.beat(OLD, Heartbeat(counter=1, phase="running"))
    until(evidence.gaps)
    [says] = evidence.gaps()
    assert says.startswith("The recorder stopped looking (_look_at_heartbeats): AttributeError(")
