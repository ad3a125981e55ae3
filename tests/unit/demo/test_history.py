from __future__ import annotations

import itertools
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.record import Record
from demo.history import Change, StepResult, changes, max_holders, result

RELEASE = {"version": "1", "hash": "0" * 64}
ONE, TWO = "orders-1-aaaaaaaa.00000001", "orders-2-bbbbbbbb.00000002"


class Story:
    """Writes the records of a control log as the drivers would, one second apart."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._seq = itertools.count(1)

    def say(self, kind: str, **fields: Any) -> Story:
        seq = next(self._seq)
        self.records.append(Record(kind=kind, fields=fields, at=float(seq), seq=seq))
        return self

    def standby(self, name: str) -> Story:
        deployment = name.rpartition(".")[0]
        queries = [{"name": "enrich"}, {"name": "totals"}]
        self.say("declared", deployment=deployment, release=RELEASE)
        return self.say("standby", deployment=deployment, incarnation=name, queries=queries)

    def ask(self, request: str, to: str) -> Story:
        return self.say("requested", request=request, to=to, expires=99.0).say("ready", request=request, incarnation=to)

    def release(self, request: str, name: str, to: str, totals: str = "completed") -> Story:
        ends = {"enrich": {"batch": 7, "boundary": "completed"}, "totals": {"batch": 7, "boundary": totals}}
        return self.say("released", request=request, incarnation=name, to=to, boundary=totals, ends=ends)

    def acquire(self, request: str, name: str, epoch: int) -> Story:
        return self.say("acquired", request=request, incarnation=name, epoch=epoch)


def deployed() -> Story:
    return Story().standby(ONE).ask("r1", ONE).acquire("r1", ONE, 1)


def handed_over() -> Story:
    return deployed().standby(TWO).ask("r2", TWO).release("r2", ONE, TWO).acquire("r2", TWO, 2)


def test_a_first_deployment_has_no_source() -> None:
    story = deployed()
    assert changes(story.records) == [Change(source=None, to=ONE, at=5.0)]
    assert result([], story.records) is StepResult.DEPLOYED


def test_a_job_that_is_adopted_is_the_source_and_may_have_been_cut_off() -> None:
    story = Story().standby(ONE)
    story.say("requested", request="r1", to=ONE, expires=99.0, evidence={"job": "driver-1", "state": "killed"})
    story.say("ready", request="r1", incarnation=ONE).acquire("r1", ONE, 1)
    cut = {"enrich": "interrupted", "totals": "interrupted"}
    assert changes(story.records) == [Change(source="driver-1", to=ONE, at=5.0, boundary=cut)]
    assert result([], story.records) is StepResult.ADOPTED
    assert max_holders(story.records) == 1


def test_a_hand_over_has_both_holders_and_the_boundary_of_each_query() -> None:
    story = handed_over()
    change = changes(story.records)[-1]
    assert (change.source, change.to, change.clean) == (ONE, TWO, True)
    assert change.boundary == {"enrich": "completed", "totals": "completed"}
    assert result(story.records[:5], story.records[5:]) is StepResult.HANDED_OVER
    assert max_holders(story.records) == 1


def test_a_second_change_back_to_the_old_holder_is_a_roll_back() -> None:
    story = handed_over().ask("r3", ONE).release("r3", TWO, ONE).acquire("r3", ONE, 3)
    assert result(story.records[:5], story.records[5:]) is StepResult.ROLLED_BACK


def test_a_fenced_holder_leaves_every_query_interrupted() -> None:
    story = handed_over()
    story.say("fenced", incarnation=TWO, reason="frozen", evidence="gone").ask("r3", ONE).acquire("r3", ONE, 3)
    change = changes(story.records)[-1]
    assert change.boundary == {"enrich": "interrupted", "totals": "interrupted"}
    assert not change.clean
    assert result(story.records[:5], story.records[5:]) is StepResult.ROLLED_BACK


def test_a_fence_after_an_interrupted_release_keeps_its_boundaries() -> None:
    story = deployed().standby(TWO).ask("r2", TWO).release("r2", ONE, TWO, totals="interrupted")
    story.say("fenced", incarnation=ONE, reason="mid-batch", evidence="gone").acquire("r2", TWO, 2)
    assert changes(story.records)[-1].boundary == {"enrich": "completed", "totals": "interrupted"}


@pytest.mark.parametrize("end", ["failed", "retired"])
def test_a_failed_or_retired_standby_beside_the_holder_is_a_refused_upgrade(end: str) -> None:
    story = deployed().say("declared", deployment="orders-3-c", release=RELEASE)
    story.say(end, deployment="orders-3-c", incarnation=None, reason="the state does not fit", error="")
    assert result(story.records[:5], story.records[5:]) is StepResult.REFUSED


def test_any_other_history_is_an_error_with_the_reason_from_the_log() -> None:
    story = Story().say("declared", deployment="orders-1-a", release=RELEASE)
    story.say("failed", deployment="orders-1-a", incarnation=None, reason="no cores", error="")
    with pytest.raises(StreamError, match="no cores"):
        result([], story.records)


def test_two_holders_at_the_same_time_are_counted() -> None:
    story = deployed().standby(TWO).acquire("r2", TWO, 2)
    assert max_holders(story.records) == 2
