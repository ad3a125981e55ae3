"""Bringing a stream back, against a real control log: what is done, and what is skipped with its reason."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.control import ControlLog, FilesRoot, make_root
from airflow_stream_provider.control.files_root import SampleFile
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlUnavailable
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.monitoring.samples import LagSample, append
from airflow_stream_provider.operators.base import hand_overs
from airflow_stream_provider.operators.watch import KnownRoots, ReviveStreamOperator
from airflow_stream_provider.spec.stream import StreamSpec
from airflow_stream_provider.spec.watched import note_of
from devstack.control_folder import folder_of
from tests.support.noting_cluster import NotingCluster
from tests.support.snapshots import BOTH, RUNNING, STOPPED, WISHED
from tests.support.story import NEW, OLD, failed, retired, wanted, write
from tests.support.tasks import context, run
from tests.support.watch_task import Variables


def revive(spec: StreamSpec) -> Any:
    return run(ReviveStreamOperator(task_id="t", stream=spec))


def beat(log: ControlLog, counter: int) -> None:
    log.beat(OLD, Heartbeat(counter=counter, at=time.time()))


def test_a_control_folder_that_is_not_mounted_is_an_error(spec: StreamSpec, tmp_path: Path) -> None:
    away = spec.model_copy(update={"control": f"file://{tmp_path}/away"})
    with pytest.raises(ControlUnavailable, match="is not a control root"):
        revive(away)


def test_a_stream_is_brought_back_as_it_was_declared_last(
    spec: StreamSpec, log: ControlLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = Variables()
    monkeypatch.setattr("airflow_stream_provider.operators.watch.Variable", variables)
    KnownRoots("streams__watch").add({spec.control})
    write(log, *RUNNING)
    beat(log, 2)
    FilesRoot(spec.control).note("orders", note_of(spec, "streams__watch"))
    task = ReviveStreamOperator(task_id="t", name="orders", control=spec.control, watch="streams__watch")
    assert task.outlets == [hand_overs("*")]
    with pytest.raises(TaskDeferred) as deferred:
        run(task)
    assert deferred.value.trigger.serialize()[1]["address"]["cluster"] == spec.cluster
    assert task.stream.kafka == spec.kafka
    # A person who names another control root brings nothing back that is there.
    other = ReviveStreamOperator(task_id="t", name="orders", control="file:///elsewhere", watch="streams__watch")
    with pytest.raises(AirflowFailException, match="looks after no stream orders in file:///elsewhere"):
        run(other)


def test_a_stream_that_was_never_deployed_is_skipped(spec: StreamSpec) -> None:
    make_root(spec.control)
    with pytest.raises(AirflowSkipException, match="never been deployed"):
        revive(spec)


def test_one_that_is_alive_since_the_last_look_is_skipped_at_once(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *RUNNING)
    append(SampleFile(folder_of(log)), LagSample(time.time(), counters={OLD: 1}))
    beat(log, 2)
    with pytest.raises(AirflowSkipException, match="orders-1-aaaa holds it, and its driver is alive"):
        revive(spec)


def test_one_that_may_be_dead_is_watched_first(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *RUNNING)
    append(SampleFile(folder_of(log)), LagSample(time.time(), counters={OLD: 2}))
    beat(log, 2)
    with pytest.raises(TaskDeferred) as deferred:
        revive(spec)
    condition = deferred.value.trigger.serialize()[1]["condition"]
    assert (condition["condition"], condition["counters"]) == ("SignsOfLife", {OLD: 2})
    assert not any(record.kind == "fenced" for record in log.records())


@pytest.mark.parametrize("age", [3600.0, -3600.0])
def test_one_that_has_beaten_since_a_look_of_long_ago_is_watched_first(
    spec: StreamSpec, log: ControlLog, age: float
) -> None:
    """Found by a review: it may have been silent for most of that time."""
    write(log, *RUNNING)
    append(SampleFile(folder_of(log)), LagSample(time.time() - age, counters={OLD: 1}))
    beat(log, 2)
    with pytest.raises(TaskDeferred):
        revive(spec)


def test_one_that_has_failed_is_declared_and_submitted_again(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    write(log, *RUNNING, failed(OLD))
    operator = ReviveStreamOperator(task_id="t", stream=spec)
    with pytest.raises(Exception, match=r".+"):
        operator.execute(context())  # the release of the story has no files, which is found before it is submitted
    [again] = [record for record in log.records() if record.kind == "declared"][1:]
    assert again.by == "airflow:dag/run/t"


def test_nothing_is_done_on_a_part_of_a_log(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *RUNNING, failed(OLD))
    (folder_of(log) / "log" / f"{4:020d}.json").write_bytes(b"torn")
    last = log.state.seq
    with pytest.raises(ControlLogDamaged):
        revive(spec)
    assert log.store.read(last + 1) is None


def test_nothing_is_done_on_an_older_copy_of_the_log(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *RUNNING[:-1])
    log.beat(OLD, Heartbeat(counter=7, seq=len(RUNNING), epoch=1))
    with pytest.raises(ControlLogDamaged):
        revive(spec)
    assert log.store.read(len(RUNNING)) is None


def test_nothing_is_done_for_a_stream_that_rests(spec: StreamSpec, log: ControlLog, cluster: NotingCluster) -> None:
    write(log, *STOPPED, retired("orders-1-aaaa"))
    cluster.states["driver-orders-1-aaaa"] = DriverState.FINISHED
    revive_until_it_is_skipped(spec, "There is nothing to do. Nobody holds the stream (it is stopped).")


def test_where_a_task_died_its_wish_is_gone_on_with(spec: StreamSpec, log: ControlLog, cluster: NotingCluster) -> None:
    write(log, *WISHED)
    append(SampleFile(folder_of(log)), LagSample(time.time(), counters={OLD: 1, NEW: 1}))
    beat(log, 2)
    with pytest.raises(TaskDeferred):
        revive(spec)
    request = log.refresh().open_request
    assert request is not None
    assert (request.to, request.wish, request.by) == (NEW, "take", "airflow:dag/run/t")


def test_what_waits_for_an_approval_is_left_to_people(spec: StreamSpec, log: ControlLog) -> None:
    new = wanted("new", "stand_by", approval=True)
    write(log, *[new if each.get("wish") == "new" else each for each in BOTH], wanted("take", family="new"))
    append(SampleFile(folder_of(log)), LagSample(time.time(), counters={OLD: 1}))
    beat(log, 2)
    revive_until_it_is_skipped(spec, "a person has to approve it")
    assert log.refresh().holder == OLD


def revive_until_it_is_skipped(spec: StreamSpec, why: str) -> None:
    with pytest.raises(AirflowSkipException, match=re.escape(why)):
        revive(spec)
