"""The hook on a real control log: what it observes, and that nothing is appended if something came between."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.control import log, open_log
from airflow_stream_provider.hooks import stream
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.kafka.connect import BrokerUnreachable, KafkaDenied
from airflow_stream_provider.lag.limits import Moments
from airflow_stream_provider.lifecycle.errors import (
    ControlLogDamaged,
    ControlLogReplaced,
    ControlUnavailable,
    RuleBroken,
    SpecError,
)
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.saved_state import load
from airflow_stream_provider.planning.steps import Want
from airflow_stream_provider.planning.waits import Needs
from airflow_stream_provider.spec.requested_release import RequestedRelease
from airflow_stream_provider.spec.stream import load_spec
from airflow_stream_provider.spec.watched import Declared, note_of
from devstack.control_folder import folder_of
from tests.support.lag_reports import partition, report
from tests.support.noting_cluster import NotingCluster
from tests.support.story import (
    NEW,
    OLD,
    OLD_DEPLOYMENT,
    PREPARED,
    RUNNING,
    STARTED,
    record,
    write,
)


def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    hook = StreamHook("orders", f"file://{tmp_path}/none", "no_connection", "none_either")
    assert StreamHook(**hook.address).address == hook.address
    assert hook.folder == tmp_path / "none" / "orders"
    with pytest.raises(SpecError, match="cannot be a stream's name"):
        StreamHook("../orders", f"file://{tmp_path}", "c")
    with pytest.raises(ControlUnavailable, match="is not a control root"):
        hook.observe()


def test_a_look_reads_on_where_the_last_one_ended(hook: StreamHook) -> None:
    write(hook.control_log, *RUNNING)
    assert hook.observe().state.holder == OLD
    write(open_log(hook.control, "orders"), *PREPARED[len(RUNNING) :])
    found = hook.observe()
    assert [r.seq for r in found.records] == list(range(1, len(PREPARED) + 1))
    assert (found.stream, found.state.seq, found.drivers, found.lag) == ("orders", len(PREPARED), {}, None)


def test_a_look_without_history_has_the_state_and_no_records(hook: StreamHook) -> None:
    write(hook.control_log, *PREPARED)
    again = StreamHook(**hook.address)
    found = again.observe(history=False)
    assert (found.records, found.state) == ((), hook.observe().state)
    assert len(again.observe().records) == len(PREPARED)


def test_a_cluster_that_hangs_keeps_no_other_hook_from_its_own(
    hook: StreamHook, cluster: NotingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, over = threading.Event(), threading.Event()

    def hang(connection: Any) -> Any:
        if threading.current_thread() is thread:
            began.set()
            assert over.wait(60)
        return cluster

    monkeypatch.setattr(stream, "open_cluster", hang)
    other = StreamHook(**hook.address)
    thread = threading.Thread(target=lambda: other.cluster)
    thread.start()
    assert began.wait(60)
    assert hook.cluster is hook.cluster
    assert thread.is_alive()
    over.set()
    thread.join()


def test_a_look_says_when_it_began_to_read_the_heartbeats(hook: StreamHook, monkeypatch: pytest.MonkeyPatch) -> None:
    write(hook.control_log, *RUNNING)
    reading: list[float] = []
    listed = hook.control_log.store.heartbeats
    monkeypatch.setattr(hook.control_log.store, "heartbeats", lambda: reading.append(time.monotonic()) or listed())
    before = time.monotonic()
    read_at = hook.observe().read_at
    assert read_at is not None
    assert before <= read_at <= reading[0]


@pytest.mark.parametrize(
    ("left", "lost", "expected"),
    [
        ((), (), (True, False)),
        ((), ("its worker",), (False, True)),
        (("an executor",), ("its worker",), (False, False)),
    ],
)
def test_the_cluster_is_asked_for_the_applications_that_the_heartbeats_name(
    hook: StreamHook,
    cluster: NotingCluster,
    left: tuple[str, ...],
    lost: tuple[str, ...],
    expected: tuple[bool, bool],
) -> None:
    write(hook.control_log, *PREPARED)
    hook.control_log.beat(OLD, Heartbeat(application_id="app-1"))
    hook.control_log.beat(f"{OLD_DEPLOYMENT}.0000000b", Heartbeat(application_id="app-2"))
    hook.control_log.beat(NEW, Heartbeat(application_id="app-3"))
    cluster.states[f"driver-{OLD_DEPLOYMENT}"] = DriverState.FAILED
    cluster.left, cluster.lost = left, lost
    found = hook.observe(Needs(drivers=(OLD_DEPLOYMENT,))).drivers[OLD_DEPLOYMENT]
    assert (found.gone, found.lost) == expected
    assert cluster.applications == {"app-1", "app-2"}
    cluster.applications = set()
    hook.kill(OLD_DEPLOYMENT)
    assert cluster.applications == {"app-1", "app-2"}


@pytest.mark.parametrize(
    ("state", "left", "gone"),
    [
        (DriverState.RUNNING, (), False),
        (DriverState.UNKNOWN, (), False),
        (DriverState.FINISHED, ("an executor",), False),
        (DriverState.FINISHED, (), True),
    ],
)
def test_a_driver_is_gone_only_when_its_cluster_says_so_of_all_of_it(
    hook: StreamHook, cluster: NotingCluster, state: DriverState, left: tuple[str, ...], gone: bool
) -> None:
    write(hook.control_log, *RUNNING)
    cluster.states[f"driver-{OLD_DEPLOYMENT}"], cluster.left = state, left
    found = hook.observe(Needs(drivers=(OLD_DEPLOYMENT, "unknown"))).drivers
    assert found.keys() == {OLD_DEPLOYMENT}
    assert (found[OLD_DEPLOYMENT].state, found[OLD_DEPLOYMENT].gone) == (state, gone)


def test_a_trigger_sees_what_a_task_sees(hook: StreamHook, cluster: NotingCluster) -> None:
    write(hook.control_log, *RUNNING)
    again = StreamHook(**hook.address)
    found = asyncio.run(again.aobserve(Needs(drivers=(OLD_DEPLOYMENT,))))
    assert (found.state.holder, set(found.drivers)) == (OLD, {OLD_DEPLOYMENT})


@pytest.mark.parametrize("error", [BrokerUnreachable("Away."), KafkaDenied("Denied.")])
def test_a_lag_that_kafka_does_not_tell_is_unknown_and_hides_nothing_else(
    hook: StreamHook, holding: None, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    found = report(partition(5))
    monkeypatch.setattr(stream, "measure_sources", lambda kafka, extra, sources, moments: found)
    assert hook.observe(Needs(lag=Moments())).lag is found
    assert hook.observe().lag is None

    def away(kafka: str, extra: Any, sources: Any, moments: Any) -> Any:
        raise error

    monkeypatch.setattr(stream, "measure_sources", away)
    look = hook.observe(Needs(lag=Moments()))
    assert (look.lag, look.state.holder) == (None, OLD)


def test_without_kafka_or_queries_nothing_is_measured(hook: StreamHook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "measure_sources", None)
    assert hook.observe(Needs(lag=Moments())).lag is None
    without = StreamHook("orders", hook.control, "here")
    write(hook.control_log, *RUNNING)
    assert without.observe(Needs(lag=Moments())).lag is None


def test_a_record_is_appended_only_if_nothing_came_between(hook: StreamHook) -> None:
    write(hook.control_log, *STARTED)
    fields = {"deployment": OLD_DEPLOYMENT, "reason": "why"}
    assert not hook.append("retired", "me", 2, **fields)
    assert hook.append("retired", "me", 3, **fields)
    with pytest.raises(RuleBroken, match="retire-once"):
        hook.append("retired", "me", 4, **fields)
    last = hook.control_log.records()[-1]
    assert (last.seq, last.by, last["reason"]) == (4, "me", "why")


def test_a_look_reads_every_record_once(hook: StreamHook, monkeypatch: pytest.MonkeyPatch) -> None:
    write(open_log(hook.control, "orders"), *PREPARED)
    store = hook.control_log.store
    read: list[int] = []
    monkeypatch.setattr(store, "read", lambda seq, plain=store.read: (read.append(seq), plain(seq))[1])
    found = hook.observe()
    last = len(PREPARED)
    assert read == list(range(1, last + 2))
    assert (found.records[-1].seq, found.state.seq) == (last, last)


def test_airflow_saves_the_state_and_does_without_when_it_cannot(
    hook: StreamHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "SAVE_EVERY", 4)
    write(hook.control_log, *STARTED)
    saved = folder_of(hook.control_log) / "state.jsonl"
    saved.mkdir()  # so that it cannot be replaced
    assert hook.append("retired", "me", 3, deployment=OLD_DEPLOYMENT, reason="why")
    saved.rmdir()
    assert hook.append("noted", "me", 4)
    assert load(saved.read_bytes()) == hook.control_log.state


def test_a_look_at_another_log_than_before_is_an_error(hook: StreamHook) -> None:
    write(hook.control_log, *RUNNING)
    (folder_of(hook.control_log) / "log" / f"{len(RUNNING):020d}.json").unlink()
    with pytest.raises(ControlLogReplaced):
        hook.observe()


def test_a_look_at_a_log_that_is_older_than_a_heartbeat_is_an_error(hook: StreamHook) -> None:
    write(hook.control_log, *RUNNING)
    hook.control_log.beat(NEW, Heartbeat(seq=len(RUNNING) + 1))
    with pytest.raises(ControlLogDamaged, match=f"its driver {NEW} has read record {len(RUNNING) + 1}"):
        hook.observe()
    write(open_log(hook.control, "orders"), record("noted"))
    assert hook.observe().state.holder == OLD


def test_a_deployment_notes_how_its_stream_is_watched_and_leaves_it_to_the_same_watch(
    running: StreamHook, yaml: Path
) -> None:
    spec = load_spec(yaml)
    assert running.root.noted()["orders"] == note_of(spec, "")
    running.root.note("orders", note_of(spec, "streams__watch"))
    yaml.write_text(yaml.read_text() + "watch: {schedule: 5m}\n")
    seq = running.control_log.refresh().seq
    step = Want({"wish": "wish-2", "goal": "hold", "reason": "why"}, publish=True)
    assert not running.wish(step, "me", seq - 1, RequestedRelease.of(load_spec(yaml)))
    # What the YAML says of watching counts, whatever becomes of the wish.
    declared = Declared.read("orders", running.control, running.root.noted()["orders"])
    assert declared is not None
    assert (declared.watch, declared.spec.watch.schedule, declared.spec.source.name) == (
        "streams__watch",
        300.0,
        "orders.yaml",
    )
