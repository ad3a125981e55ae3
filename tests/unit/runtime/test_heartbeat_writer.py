"""What a driver's heartbeats say, and how often Spark is asked for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from airflow_stream_provider.lifecycle.heartbeat import Commit, DriverPhase, Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.runtime.heartbeat_writer import HeartbeatWriter
from airflow_stream_provider.runtime.offsets_group import OffsetsGroup
from tests.support.fake_driver import FakeClock, FakeProcess, FakeQueries

STATE = StreamState(seq=12, epoch=3)
# Another driver has held meanwhile, and this one holds again.
ANEW = StreamState(seq=16, epoch=5)


class Writer(HeartbeatWriter):
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.fake = FakeQueries([])
        process: Any = FakeProcess([], self.clock)
        super().__init__(cast(Any, self.fake), process, OffsetsGroup(None, lambda: True), self.clock)


def test_a_heartbeat_counts_and_says_what_the_driver_has_read() -> None:
    writer = Writer()
    first, second = writer.next(STATE, running=False), writer.next(STATE, running=False)
    assert (first.counter, second.counter) == (1, 2)
    assert (first.seq, first.epoch, first.at, first.pid, first.host) == (12, 3, 150.0, 1, "here")
    assert (first.phase, first.queries, first.started_at) == ("starting", (), None)


def test_a_heartbeat_says_what_the_agent_has_set() -> None:
    writer = Writer()
    writer.phase, writer.rehearsal, writer.started_at = DriverPhase.RUNNING, {"seconds": 1.0}, 140.0
    writer.say("warming up a")
    found = writer.next(STATE, running=False)
    assert (found.phase, found.rehearsal, found.started_at, found.message) == (
        "running",
        {"seconds": 1.0},
        140.0,
        "warming up a",
    )


def test_a_heartbeat_says_what_the_driver_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a right that its user lacks: whoever waits for the driver reads nothing else of it."""
    writer = Writer()
    monkeypatch.setattr(FakeProcess, "facts", Heartbeat(message="The driver's user may not use it."))
    assert writer.next(STATE, running=False).message == "The driver's user may not use it."
    writer.say("warming up a")
    assert writer.next(STATE, running=False).message == "warming up a"


def test_the_commits_of_the_queries_are_carried_until_another_driver_may_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer = Writer()
    done = QueryProgress("a", batch_seconds=1.0, triggered_at="1970-01-01T00:02:00.000Z", committed=({"t": {"0": 5}},))

    def look(batch: int, state: StreamState = STATE) -> tuple[Commit, ...]:
        monkeypatch.setattr(writer.fake, "progress", lambda: [replace(done, batch=batch)])
        writer.clock.now += 1.0
        return writer.next(state, running=True).queries[0].commits

    assert look(1) == (Commit(121.0, {"t": {"0": 5}}),)
    assert len(look(2)) == 2
    assert len(writer.next(STATE, running=False).queries[0].commits) == 2, "what ran last is said still"
    assert len(look(3)) == 3, "it goes on in its own hold, as after a hand-over that was called off"
    assert len(look(9, ANEW)) == 1


def test_a_query_that_is_started_again_has_committed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by a review: in an outage the release counted as one that never committed, and an older one followed."""
    writer = Writer()

    def look(batch: int | None, state: StreamState = STATE) -> int | None:
        monkeypatch.setattr(writer.fake, "progress", lambda: [QueryProgress("a", batch=batch)])
        writer.clock.now += 1.0
        return writer.next(state, running=True).queries[0].batch

    assert [look(None), look(999), look(None), look(1000)] == [None, 999, 999, 1000]
    look(None)
    last = writer.next(STATE, running=False)
    assert last.queries[0].batch == 1000, "it has failed meanwhile"
    assert writer.committed
    assert look(None) == 1000, "it goes on in its own hold"
    assert look(None, ANEW) is None, "it has taken over anew"
    assert writer.committed, "it has committed in its first hold"


def test_a_driver_has_committed_once_one_of_its_queries_has(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer()
    found = [writer.committed]
    done = QueryProgress("b", batch=8, batch_seconds=1.0, triggered_at="1970-01-01T00:02:00.000Z")
    # Of an idle query, Spark names the batch that an earlier driver has committed.
    for queries in (
        [QueryProgress("a")],
        [QueryProgress("a"), QueryProgress("b", batch=7)],
        [QueryProgress("a"), done],
    ):
        monkeypatch.setattr(writer.fake, "progress", lambda queries=queries: queries)
        writer.clock.now += 1.0
        writer.next(STATE, running=True)
        found.append(writer.committed)
    assert found == [False, False, False, True], "nobody had asked at first"


def test_a_driver_of_which_spark_cannot_say_how_far_it_is_beats_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counted as the control log being out of reach: a healthy driver paused, looked dead, and was killed."""
    writer = Writer()
    writer.next(STATE, running=True)

    def fail() -> None:
        raise KeyError("triggerExecution")

    with monkeypatch.context() as patch:
        patch.setattr(writer.fake, "progress", fail)
        writer.clock.now += 1.0
        found = writer.next(STATE, running=True)
        assert (found.counter, found.queries) == (2, (QueryProgress("a", batch=7),))
        assert found.message == "The progress of the queries is not known: KeyError: 'triggerExecution'"
        assert writer.next(STATE, running=False).message == ""
        writer.clock.now += 1.0
        assert writer.next(ANEW, running=True).queries[0].batch is None, "it has taken over anew"
    writer.clock.now += 1.0
    assert writer.next(STATE, running=True).message == ""


def test_progress_is_asked_for_once_a_second_and_only_while_the_queries_run() -> None:
    writer = Writer()
    writer.next(STATE, running=False)
    assert writer.fake.asked == 0
    for _ in range(3):
        assert writer.next(STATE, running=True).queries == (QueryProgress("a", batch=7),)
    assert writer.fake.asked == 1
    writer.clock.now += 1.0
    writer.next(STATE, running=True)
    assert writer.fake.asked == 2
    assert writer.next(STATE, running=False).queries, "what ran last is said still"
