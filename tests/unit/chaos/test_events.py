from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.lifecycle.heartbeat import Commit, Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.record import Record
from chaos import events as module
from chaos.events import Events
from chaos.plan import Trigger
from devstack.control_folder import folder_of
from tests.support import story
from tests.support.control_root import new_log
from tests.support.story import NEW, NEW_DEPLOYMENT, OLD, OLD_DEPLOYMENT, write

COMMITS = Heartbeat(phase="running", queries=(QueryProgress("a", batch=3, commits=(Commit(1.0),)),))


@pytest.fixture
def events(log: ControlLog, monkeypatch: pytest.MonkeyPatch) -> Events:
    monkeypatch.setattr(module, "BEATS_SECONDS", 0.0)
    return Events(new_log(folder_of(log).parent.as_uri()))


def by_drivers(records: Iterable[Record]) -> list[Record]:
    """As drivers sign what they write."""
    return [replace(r, by=f"driver:{r['incarnation']}") if r.get("incarnation") else r for r in records]


def test_a_state_is_an_event_once_it_has_lasted(log: ControlLog, events: Events) -> None:
    write(log, *story.RUNNING)
    log.beat(OLD, COMMITS)
    events.begin()
    assert events.name == "running"
    assert events.happened(Trigger("running"))
    assert not events.happened(Trigger("running", 3600.0))
    assert not events.happened(Trigger("ready"))


def test_appends_are_counted_by_author_from_the_beginning_of_the_scenario(log: ControlLog, events: Events) -> None:
    write(log, *by_drivers(story.RUNNING))
    events.begin()
    first, second = Trigger("ready", 0.0, "standby", 1), Trigger("requested", 0.0, "standby", 2)
    release = Trigger("released", 0.0, "holder", 1)
    seen = []
    for record in by_drivers(story.HANDED_OVER[len(story.RUNNING) :]):
        write(log, record)
        events.look()
        seen.append((record.kind, *map(events.happened, (first, second, release))))
    assert seen == [
        ("declared", False, False, False),
        ("submitted", False, False, False),
        ("standby", True, False, False),
        ("requested", True, False, False),
        ("ready", True, True, False),
        ("released", True, True, True),
        ("acquired", True, True, True),
    ]


def test_holder_and_standby_are_found_also_before_they_have_announced_themselves(
    log: ControlLog, events: Events
) -> None:
    write(log, *story.RUNNING)
    log.beat(OLD, COMMITS)
    events.look()
    assert (events.incarnation("holder_python"), events.deployment("holder")) == (OLD, OLD_DEPLOYMENT)
    assert (events.incarnation("standby"), events.deployment("standby")) == ("", "")
    write(log, *story.PREPARED[len(story.RUNNING) : -1])
    events.look()
    assert (events.incarnation("standby"), events.deployment("standby_python")) == ("", NEW_DEPLOYMENT)
    log.beat(NEW, Heartbeat(phase="rehearsing"))
    events.look()
    assert (events.incarnation("standby"), events.name) == (NEW, "rehearsing")


def test_who_has_released_is_the_holder_until_another_acquires(log: ControlLog, events: Events) -> None:
    write(log, *story.RELEASED)
    events.look()
    assert (events.name, events.incarnation("holder")) == ("released", OLD)


def test_heartbeats_of_the_dead_do_not_count(log: ControlLog, events: Events) -> None:
    write(log, *story.PREPARED, story.fenced(NEW))
    log.beat(OLD, COMMITS)
    log.beat(NEW, Heartbeat(phase="rehearsing"))
    events.look()
    assert set(events.beats) == {OLD}
    assert events.name == "running"
