"""A person answers, or nobody does: how the run ends, and that no standby is left."""

from __future__ import annotations

from collections.abc import Callable

import pytest

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


def test_no_answer_in_time_ends_the_standby_too(asked: World) -> None:
    run = asked.upgrade("2", answer="timeout")
    assert run.state == "failed"
    assert asked.version == "1"
    assert run.tries["approve"] == 1
    assert "Nobody answered within 1:00:00" in run.log
    asked.until("the standby's end", lambda: len(asked.drivers()) == 1)


def test_a_run_that_a_person_marks_as_failed_leaves_no_standby_and_stays_failed(asked: World) -> None:
    run = asked.upgrade("2", answer="cancel")
    assert (run.state, run.states["approve"], run.states["hand_over"]) == ("failed", "failed", "skipped")
    assert (run.states["discard"], run.states["report"]) == ("success", "failed")
    assert asked.version == "1"
    asked.until("the standby's end", lambda: len(asked.drivers()) == 1)
    asked.assert_sound()
