"""The hook on a real control log: what it observes, and that nothing is appended if something came between."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.control import log, open_log
from airflow_stream_provider.hooks import lag, stream
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.kafka.connect import BrokerUnreachable, KafkaDenied
from airflow_stream_provider.lag.moments import Moments
from airflow_stream_provider.lifecycle.errors import (
    ClusterError,
    ControlLogDamaged,
    ControlLogReplaced,
    ControlUnavailable,
    RuleBroken,
    SpecError,
)
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.saved_state import load
from airflow_stream_provider.planning.condition import Needs
from devstack.checkpoint_trees import commit, kafka, new, plan
from devstack.control_folder import folder_of
from tests.support.lag_reports import partition, report
from tests.support.noting_cluster import NotingCluster
from tests.support.story import (
    HANDED_OVER,
    INTERRUPTED,
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    PREPARED,
    RUNNING,
    STARTED,
    STOPPED,
    acquired,
    declared,
    ready,
    record,
    requested,
    retired,
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
    ("records", "read"),
    [
        ([], set()),
        ([declared(OLD_DEPLOYMENT), declared(NEW_DEPLOYMENT)], {OLD, NEW}),
        (PREPARED, {OLD, NEW}),
        (INTERRUPTED, {OLD, NEW}),
        ([*HANDED_OVER, retired(OLD_DEPLOYMENT)], {NEW}),
        ([*STOPPED, retired(OLD_DEPLOYMENT), retired(NEW_DEPLOYMENT)], {OLD}),
    ],
    ids=["of no deployment", "not announced yet", "alive", "to be fenced", "ended", "held last"],
)
def test_heartbeats_of_those_that_still_matter_are_read(hook: StreamHook, records: list[Any], read: set[str]) -> None:
    write(hook.control_log, *records)
    for name in (OLD, NEW):
        hook.control_log.beat(name, Heartbeat(counter=1))
    assert hook.observe().heartbeats.keys() == read


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
    with ThreadPoolExecutor(1) as pool:
        found = asyncio.run(again.aobserve(Needs(drivers=(OLD_DEPLOYMENT,)), pool))
    assert (found.state.holder, set(found.drivers)) == (OLD, {OLD_DEPLOYMENT})


def holding(hook: StreamHook, tmp_path: Path) -> None:
    """Let a driver hold whose query has committed batch 1 at offset 20."""
    root = new(tmp_path / "out")
    for batch in (0, 1):
        plan(root, batch, kafka(orders={0: 20 * batch}))
        commit(root, batch)
    query = {"name": "out", "checkpoint": str(tmp_path / "out"), "sources": ["kafka:subscribe=orders"]}
    up = record("standby", deployment=OLD_DEPLOYMENT, incarnation=OLD, queries=[query], rehearsal={})
    write(hook.control_log, *STARTED[:2], up, requested("a", OLD), ready("a", OLD), acquired(OLD, "a", 1))


@pytest.mark.parametrize("error", [BrokerUnreachable("Away."), KafkaDenied("Denied.")])
def test_a_lag_that_kafka_does_not_tell_is_unknown_and_hides_nothing_else(
    hook: StreamHook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    holding(hook, tmp_path)
    found = report(partition(5))
    monkeypatch.setattr(lag, "measure_sources", lambda kafka, extra, sources, moments: found)
    assert hook.observe(Needs(lag=Moments())).lag is found
    assert hook.observe().lag is None

    def away(kafka: str, extra: Any, sources: Any, moments: Any) -> Any:
        raise error

    monkeypatch.setattr(lag, "measure_sources", away)
    look = hook.observe(Needs(lag=Moments()))
    assert (look.lag, look.state.holder) == (None, OLD)


def test_without_kafka_or_queries_nothing_is_measured(hook: StreamHook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "measure_sources", None)
    assert hook.observe(Needs(lag=Moments())).lag is None
    without = StreamHook("orders", hook.control, "here")
    write(hook.control_log, *RUNNING)
    assert without.observe(Needs(lag=Moments())).lag is None


def test_what_is_committed_is_read_from_the_checkpoint(hook: StreamHook, tmp_path: Path) -> None:
    holding(hook, tmp_path)
    found = hook.observe()
    assert hook.committed(found.state, found.heartbeats) == {"out": [{"orders": {0: 20}}]}
    hook.control_log.beat(OLD, Heartbeat(queries=(QueryProgress("other"),)))
    assert hook.committed(found.state, hook.observe().heartbeats).keys() == {"out"}


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


def test_links_are_what_is_known_of_them(hook: StreamHook, cluster: NotingCluster) -> None:
    write(hook.control_log, *STARTED[:1])
    assert hook.links(OLD_DEPLOYMENT) == {}
    write(hook.control_log, *STARTED[1:])
    log = {"driver log": f"http://worker/driver-{OLD_DEPLOYMENT}"}
    assert hook.links(OLD_DEPLOYMENT) == log
    hook.control_log.beat(OLD, Heartbeat(ui_url="http://driver:4040"))
    assert hook.links(OLD_DEPLOYMENT) == {**log, "Spark UI": "http://driver:4040"}
    cluster.error = ClusterError("The master is away.")
    assert hook.links(OLD_DEPLOYMENT) == {"Spark UI": "http://driver:4040"}


def test_the_end_of_a_driver_s_log_is_shown_if_it_can_be_read_and_nothing_fails_for_it(
    hook: StreamHook, cluster: NotingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(hook.control_log, *STARTED[:1])
    assert hook.log_tail(OLD_DEPLOYMENT) == ""
    write(hook.control_log, *STARTED[1:])
    cluster.logs = {f"driver-{OLD_DEPLOYMENT}": "  | Boom."}
    assert hook.log_tail(OLD_DEPLOYMENT) == "  | Boom."
    cluster.error = ClusterError("The master is away.")
    assert hook.log_tail(OLD_DEPLOYMENT) == ""
    cluster.error = None
    monkeypatch.setattr(cluster, "log_tail", {}.__getitem__)  # an answer that nobody has thought of
    assert hook.log_tail(OLD_DEPLOYMENT) == ""


def test_no_log_of_somebody_else_s_driver_is_shown_because_a_heartbeat_names_it(
    hook: StreamHook, cluster: NotingCluster
) -> None:
    write(hook.control_log, *STARTED[:1])
    hook.control_log.beat(OLD, Heartbeat(submission="driver-7"))
    cluster.logs = {"driver-7": "  | Boom."}
    assert hook.log_tail(OLD_DEPLOYMENT) == "  | Boom."
    cluster.strangers = {"driver-7"}
    assert hook.log_tail(OLD_DEPLOYMENT) == ""


def test_cleaning_up_lets_the_cluster_forget_the_drivers_whose_end_is_in_the_log(
    hook: StreamHook, cluster: NotingCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    write(hook.control_log, *PREPARED)
    hook.clean_up()
    assert cluster.forgotten == []
    write(hook.control_log, retired(NEW_DEPLOYMENT))
    hook.clean_up()
    assert cluster.forgotten == [NEW_DEPLOYMENT]
    cluster.error = ClusterError("The cluster is away.")
    hook.clean_up()
    assert "keeps of orders cannot be cleaned up now: The cluster is away." in capsys.readouterr().out
