"""A person answers, or nobody does, or the standby dies meanwhile: how the run ends, and that no standby is left."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence

import pytest

from airflow_stream_provider.lifecycle.heartbeat import QueryProgress
from tests.support.airflow_world import World


@pytest.fixture
def asked(make_world: Callable[..., World]) -> World:
    """A stream whose upgrades need a yes, release 1 running."""
    world = make_world()
    world.yaml.write_text(world.yaml.read_text() + "  approval: true\n")
    run = world.upgrade("1", answer="Approve")
    assert run.state == "success", run.log[-8000:]
    assert world.version == "1"
    return world


def test_a_no_is_a_result_and_ends_the_standby(asked: World) -> None:
    run = asked.upgrade("2", answer="Reject")
    assert run.state == "success", run.log[-8000:]
    assert asked.version == "1"
    assert (run.states["approve"], run.states["hand_over"]) == ("failed", "upstream_failed")
    assert (run.result("report")["result"], run.result("report")["by"]) == ("rejected", "anna")
    asked.until("the standby's end", lambda: len(asked.drivers()) == 1)
    assert [r["reason"] for r in asked.log.records() if r.kind == "retired"] == ["Rejected by anna."]
    asked.assert_sound()


def test_a_run_that_a_person_marks_as_failed_leaves_no_standby_and_stays_failed(asked: World) -> None:
    run = asked.upgrade("2", answer="cancel")
    assert (run.state, run.states["approve"], run.states["hand_over"]) == ("failed", "failed", "skipped")
    assert (run.states["roll_back"], run.states["report"]) == ("success", "failed")
    assert asked.version == "1"
    asked.until("the standby's end", lambda: len(asked.drivers()) == 1)
    asked.assert_sound()


@pytest.mark.system  # a minute
def test_a_rehearsal_that_leaves_a_doubt_asks_a_person_and_one_that_does_not_asks_nobody(world: World) -> None:
    run = world.deploy("1")
    assert (run.states["judge"], run.states["approve"], run.states["hand_over"]) == ("success", "skipped", "success")
    run = world.deploy("2")
    assert run.result("judge")["verdict"] == "pass"
    assert run.states["approve"] == "skipped"
    assert run.xcoms["soak"]["comparison"]["verdict"] == "pass", "the old release tells how it did before"

    world.write("few-rows")
    run = world.upgrade("3", answer="Reject")
    assert (run.state, run.states["approve"], world.version) == ("success", "failed", "2")
    assert run.result("judge")["verdict"] == "inconclusive"
    assert "too few to compare" in run.result("judge")["reasons"][0]
    assert run.result("report")["result"] == "rejected"

    run = world.upgrade("3", answer="Approve")
    assert (run.state, run.states["approve"], world.version) == ("success", "success", "3")
    world.assert_sound()


def test_a_release_that_is_slower_than_rows_come_in_asks_a_person(world: World) -> None:
    world.deploy("1")
    world.until("two batches in the heartbeat", lambda: [q for q in progress(world) if len(q.batches) > 1])
    world.write("slow-rows")
    run = world.upgrade("2", answer="Reject")
    assert (run.states["judge"], run.states["approve"]) == ("success", "failed")
    assert "it processes 1.0 rows a second, and" in run.log
    assert "come in, which is too slow, if it was not the machine that was busy." in run.log
    assert world.version == "1"
    world.until("the standby's end", lambda: len(world.drivers()) == 1)
    world.assert_sound()


@pytest.mark.system
def test_a_standby_that_dies_while_a_person_thinks_ends_the_question(asked: World) -> None:
    killed = threading.Thread(target=kill_standby, args=[asked, asked.airflow.log.stat().st_size])
    killed.start()
    run = asked.upgrade("2")
    killed.join(60)
    assert (run.state, run.states["approve"], run.states["hand_over"]) == ("failed", "failed", "upstream_failed")
    assert run.tries["approve"] == 1
    assert "While a person was asked: The driver of " in run.log
    assert "has given no sign of life for " in run.log
    assert "There is nothing left to decide: the standby is ended. Trigger it again." in run.log
    assert asked.version == "1"
    assert len(asked.drivers()) == 1
    asked.assert_sound()


@pytest.mark.system
def test_a_holder_that_dies_while_a_person_thinks_about_a_doubt_is_upgraded_at_once(world: World) -> None:
    world.deploy("1")
    world.write("few-rows")
    killed = threading.Thread(target=kill_holder, args=[world, world.airflow.log.stat().st_size])
    killed.start()
    run = world.upgrade("2")
    killed.join(60)
    assert run.result("judge")["verdict"] == "inconclusive"
    assert (run.state, run.states["approve"], run.states["hand_over"]) == ("success", "skipped", "success")
    assert "No answer is needed any more: " in run.log
    assert world.version == "2"
    world.assert_sound()


@pytest.mark.system  # it waits as long as a person has time
def test_no_answer_in_time_is_a_no_and_the_standby_is_warm_until_then(asked: World) -> None:
    asked.yaml.write_text(asked.yaml.read_text() + "  approval_timeout: 60s\n")
    seen: list[int] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(1.0):
            seen.append(len(asked.drivers()))

    watching = threading.Thread(target=watch)
    watching.start()
    run = asked.upgrade("2")
    over.set()
    watching.join(60)
    assert (run.state, run.states["approve"], run.tries["approve"]) == ("failed", "failed", 1)
    assert "No answer came within 0:01:00, which counts as a no: the standby is ended." in run.log
    assert asked.version == "1"
    assert seen.count(2) > 30, "the standby was up for a minute"
    asked.until("the standby's end", lambda: len(asked.drivers()) == 1)
    asked.assert_sound()


def progress(world: World) -> Sequence[QueryProgress]:
    beat = world.log.heartbeat(world.state.holder or "")
    return beat.queries if beat else ()


def kill_standby(world: World, begin: int) -> None:
    """Kill the driver of the standby once Airflow's log, from `begin` on, says that a person is asked."""
    _kill(world, begin, holds=False)


def kill_holder(world: World, begin: int) -> None:
    """Kill the driver that holds, as `kill_standby`."""
    _kill(world, begin, holds=True)


def _kill(world: World, begin: int, *, holds: bool) -> None:
    text = b"waiting for an answer about "
    world.until("the question", lambda: text in world.airflow.log.read_bytes()[begin:])
    for pid, deployment in world.drivers().items():
        if (world.state.holder or "").startswith(f"{deployment}.") is holds:
            os.kill(pid, signal.SIGKILL)
