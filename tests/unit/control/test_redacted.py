"""What a control log quotes has no secrets in it, and a release stays as it was published."""

from __future__ import annotations

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, OffsetsGroupStatus
from tests.support import story
from tests.support.simulation.memory_store import MemoryStore


def test_what_a_script_or_spark_said_is_redacted_before_it_is_written() -> None:
    store = MemoryStore()
    log = ControlLog(store, "orders")
    log.append(story.declared("a"), 0)
    said = "Connecting to postgresql://u:hunter2@db/x failed: password=hunter2"
    written = log.append(story.record("failed", deployment="a", incarnation=None, reason=said, error=f"E: {said}"), 1)
    assert b"hunter2" not in (store.read(2) or b"")
    assert written["reason"] == "Connecting to postgresql://***@db/x failed: password=***"
    log.beat(
        "a.00000001",
        Heartbeat(
            message=said,
            rehearsal={"notes": [said]},
            offsets_group=OffsetsGroupStatus(problem=said),
        ),
    )
    assert b"hunter2" not in (store.heartbeat("a.00000001") or b"")


def test_what_a_release_is_made_of_is_written_as_it_is() -> None:
    """The driver checks its hash over these; a secret in them was refused before."""
    record = story.declared("a")
    assert ControlLog(MemoryStore(), "orders").append(record, 0)["release"] == record["release"]
