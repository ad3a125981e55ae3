from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.control.log import make_record
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.planning.conditions import InPhase, StandbyUp
from airflow_stream_provider.planning.waits import Condition, Ended, Needs, WaitOutcome
from airflow_stream_provider.triggers.stream import StreamTrigger
from tests.support.control_root import new_log
from tests.support.story import OLD_DEPLOYMENT, STARTED, failed, write


def address(folder: Path) -> dict[str, Any]:
    return {"stream": "orders", "control": f"file://{folder}", "cluster": "no_such_connection", "kafka": None}


def outcomes(folder: Path, condition: Condition, deadline: float) -> list[WaitOutcome]:
    async def collect() -> list[WaitOutcome]:
        trigger = StreamTrigger(address(folder), condition.to_json(), deadline)
        return [WaitOutcome.from_event(event.payload) async for event in trigger.run()]

    return asyncio.run(collect())


def test_it_survives_the_metadata_database(tmp_path: Path) -> None:
    kwargs: dict[str, Any] = {"address": address(tmp_path), "condition": StandbyUp("d").to_json(), "deadline": 5.0}
    path, again = StreamTrigger(**kwargs).serialize()
    assert (path, again) == ("airflow_stream_provider.triggers.stream.StreamTrigger", kwargs)


def test_it_never_acts_when_it_is_cleaned_up_or_killed() -> None:
    assert "cleanup" not in vars(StreamTrigger)
    assert "on_kill" not in vars(StreamTrigger)


def test_what_is_reached_is_said_once_and_carries_the_deadline(tmp_path: Path) -> None:
    new_log(f"file://{tmp_path}", "orders")
    deadline = time.time() + 600
    (found,) = outcomes(tmp_path, InPhase(("empty",)), deadline)
    assert (found.ended, found.deadline) == (Ended.REACHED, deadline)


def test_what_stands_in_the_log_counts_while_the_clusters_connection_cannot_be_read(tmp_path: Path) -> None:
    """A release that failed while a secrets backend was away was waited for until the task's time was over."""
    log = new_log(f"file://{tmp_path}", "orders")
    write(log, *STARTED[:2], failed(None, OLD_DEPLOYMENT))
    (found,) = outcomes(tmp_path, StandbyUp(OLD_DEPLOYMENT), time.time() + 600)
    assert (found.ended, found.reason) == (Ended.REACHED, "it has ended (failed): it broke: Boom.")


def test_after_an_outage_past_the_deadline_it_looks_once(tmp_path: Path) -> None:
    new_log(f"file://{tmp_path}", "orders")
    (found,) = outcomes(tmp_path, InPhase(("empty",)), time.time() - 3600)
    assert found.ended is Ended.REACHED
    (found,) = outcomes(tmp_path, InPhase(("running",)), time.time() - 3600)
    assert found.ended is Ended.TIMEOUT
    assert found.reason == "Timed out waiting for the stream to be running."


def test_a_look_that_hangs_is_named_and_neither_repeated_nor_in_the_way_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    hung, begun = threading.Event(), threading.Event()

    def hang(hook: StreamHook, needs: Needs) -> None:
        looks.append(threading.current_thread().name)
        begun.set()
        hung.wait(60)

    # The deadline passes once the look has begun, however long a busy machine takes until then.
    clock = SimpleNamespace(time=lambda: time.time() + 3600 * begun.is_set())
    monkeypatch.setattr("airflow_stream_provider.planning.waits.time", clock)
    monkeypatch.setattr("airflow_stream_provider.triggers.stream.LOOK_SECONDS", 0.1)
    monkeypatch.setattr(InPhase, "pace", 0.05)
    monkeypatch.setattr(StreamHook, "observe", hang)
    try:
        (found,) = outcomes(tmp_path, InPhase(("running",)), time.time() + 600)
    finally:
        hung.set()
    assert begun.is_set()
    assert found.ended is Ended.TIMEOUT
    assert "A look has taken longer than" in found.reason
    assert len(looks) == 1
    assert looks[0].startswith("airflow-stream-look-orders"), "not in the pool that all triggers share"


def test_a_log_that_cannot_be_read_is_waited_for_and_named_in_the_end(tmp_path: Path) -> None:
    (found,) = outcomes(tmp_path, InPhase(("empty",)), time.time() + 0.5)
    assert found.ended is Ended.TIMEOUT
    assert "is not a control root" in found.reason


@pytest.mark.parametrize("damaged", [b"", b"{torn", b"\xff", b"[" * 100_000])
def test_a_damaged_heartbeat_keeps_nobody_from_looking(tmp_path: Path, damaged: bytes) -> None:
    log = new_log(f"file://{tmp_path}", "orders")
    log.append(make_record("declared", "test", deployment="orders-1", release={"version": "1", "hash": "0" * 64}), 0)
    log.store.put_heartbeat("orders-1.00000001", damaged)
    (found,) = outcomes(tmp_path, InPhase(("empty",)), time.time() + 600)
    assert found.ended is Ended.REACHED


def test_a_timeout_says_what_the_drivers_said_last(tmp_path: Path) -> None:
    log = new_log(f"file://{tmp_path}", "orders")
    log.append(make_record("declared", "test", deployment="orders-1", release={"version": "1", "hash": "0" * 64}), 0)
    log.beat("orders-1.00000001", Heartbeat(counter=1, phase="rehearsing", message="warming up totals"))
    (found,) = outcomes(tmp_path, InPhase(("running",)), time.time() - 1)
    assert found.evidence == {"orders-1.00000001": "rehearsing: warming up totals"}
