"""The nemesis' view of a control log in a topic, which is in memory here."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from airflow_stream_provider.lifecycle.heartbeat import Commit, Heartbeat, QueryProgress
from chaos import events as module
from chaos.events import Events
from chaos.plan import Trigger
from chaos.topic_copy import TopicCopy
from chaos.topic_log import TopicLog
from tests.support import story
from tests.support.simulated_topic import SimulatedLog, SimulatedTopic
from tests.support.story import NEW, OLD, write
from tests.support.topic_in_memory import brokers, log

__all__ = ["brokers", "log"]

COMMITS = Heartbeat(counter=1, phase="running", queries=(QueryProgress("a", batch=3, commits=(Commit(1.0),)),))


@pytest.fixture
def read(brokers: SimulatedLog) -> TopicLog:
    return TopicLog(SimulatedTopic(brokers), "orders")


def test_the_nemesis_follows_a_hand_over_in_what_was_read(
    log: ControlLog, read: TopicLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BEATS_SECONDS", 0.0)
    events = Events(ControlLog(TopicCopy(read), "orders"))
    write(log, *story.RUNNING)
    log.beat(OLD, COMMITS)
    assert events.look() == []
    read.catch_up()
    assert len(events.look()) == len(story.RUNNING)
    assert (events.name, events.incarnation("holder"), set(events.beats)) == ("running", OLD, {OLD})
    seen = []
    for record in story.HANDED_OVER[len(story.RUNNING) :]:
        write(log, record)
        if record.kind == "standby":
            log.beat(NEW, Heartbeat(counter=1, phase="rehearsing"))
        read.catch_up()
        events.look()
        seen.append(events.name)
    assert seen == ["submitted", "submitted", "ready", "requested", "requested", "released", "acquired"]
    assert events.happened(Trigger("acquired"))
    assert set(events.beats) == {OLD, NEW}


def test_it_is_the_store_as_it_was_read(log: ControlLog, read: TopicLog) -> None:
    copy = TopicCopy(read)
    write(log, *story.RUNNING)
    assert (copy.read(1), copy.next_number(0), copy.heartbeats()) == (None, None, [])
    log.beat(OLD, COMMITS)
    read.catch_up()
    assert copy.read(1) == log.store.read(1)
    assert (copy.read(0), copy.read(len(story.RUNNING) + 1)) == (None, None)
    assert (copy.next_number(0), copy.next_number(len(story.RUNNING))) == (1, None)
    assert (copy.heartbeats(), copy.heartbeat(OLD)) == ([OLD], log.store.heartbeat(OLD))
    assert copy.heartbeat(NEW) is None
    assert ControlLog(copy, "orders").refresh() == log.refresh()


@pytest.mark.parametrize(
    "act",
    [
        lambda copy: copy.create(1, b"{}"),
        lambda copy: copy.put_heartbeat(OLD, b"{}"),
        lambda copy: copy.put_saved_state(b"{}"),
        lambda copy: copy.put_topic_ids(b"{}"),
    ],
)
def test_nothing_can_be_written_to_it(read: TopicLog, brokers: SimulatedLog, act: Callable[[TopicCopy], None]) -> None:
    with pytest.raises(ControlUnavailable, match="a copy"):
        act(TopicCopy(read))
    assert brokers.messages == []
