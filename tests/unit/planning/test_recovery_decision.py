"""What the watch does next, row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.recovery_decision import (
    COME_UP_SECONDS,
    OPEN_SECONDS,
    TRIES,
    coming_up,
    recovery_step,
    tried_instead,
)
from airflow_stream_provider.planning.recovery_decision import RecoveryAction as Do
from tests.support.story import (
    HANDED_OVER,
    INTERRUPTED,
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    PREPARED,
    READY,
    RELEASED,
    REQUESTED,
    RUNNING,
    STARTED,
    STOPPED,
    STOPPING,
    TWIN,
    aborted,
    acquired,
    declared,
    declared_again,
    failed,
    fenced,
    finished,
    hash_of,
    play,
    ready,
    released,
    requested,
    retired,
    standby,
)

OLD_D, NEW_D = OLD_DEPLOYMENT, NEW_DEPLOYMENT
BOTH = {OLD: True, NEW: True}
OLD_DEAD, NEW_DEAD = {OLD: False, NEW: True}, {OLD: True, NEW: False}
BOTH_DEAD = {OLD: False, NEW: False}
DOWN = [*RUNNING, released(OLD, None, None)]
DEAD, FAILED = [*RUNNING, fenced(OLD)], [*RUNNING, failed(OLD)]
# The old release, declared again.
AGAIN = Record(
    "declared", {"deployment": "orders-1-again", "release": {"version": "1", "hash": hash_of(OLD_D)}}, "watch"
)
AGAIN_NEW = Record(
    "declared", {"deployment": "orders-2-again", "release": {"version": "2", "hash": hash_of(NEW_D)}}, "watch", at=100.0
)

TABLE = [
    ("never started", STARTED, {OLD: True}, 100, Do.WAIT, ""),
    ("runs", RUNNING, {OLD: True}, 100, Do.WAIT, ""),
    ("the holder is dead", RUNNING, {OLD: False}, 100, Do.FENCE, OLD),
    ("nobody knows how the holder is", RUNNING, {}, 100, Do.WAIT, ""),
    ("a dead standby that nobody needs", PREPARED, NEW_DEAD, 100, Do.WAIT, ""),
    ("a hand-over goes on", REQUESTED, BOTH, 100, Do.WAIT, ""),
    ("a hand-over has expired", REQUESTED, BOTH, 200, Do.ABORT, "up"),
    ("an answered one has expired", READY, BOTH, 200, Do.ABORT, "up"),
    ("a stop has expired", STOPPING, BOTH, 200, Do.ABORT, "stop"),
    ("the appointed is dead", READY, NEW_DEAD, 100, Do.FENCE, NEW),
    ("the appointed failed", [*READY, failed(NEW)], BOTH, 100, Do.ABORT, "up"),
    ("the holder dies in a hand-over", READY, OLD_DEAD, 100, Do.FENCE, OLD),
    ("and the appointed goes on", [*READY, fenced(OLD)], OLD_DEAD, 100, Do.WAIT, ""),
    ("released: the drivers go on by themselves", RELEASED, BOTH, 900, Do.WAIT, ""),
    ("released, the releaser is dead and not needed", RELEASED, OLD_DEAD, 900, Do.WAIT, ""),
    ("released, the appointed is dead", RELEASED, NEW_DEAD, 100, Do.FENCE, NEW),
    ("then the releaser takes back", [*RELEASED, fenced(NEW)], BOTH, 900, Do.WAIT, ""),
    ("then the releaser is dead too", [*RELEASED, fenced(NEW)], BOTH_DEAD, 100, Do.FENCE, OLD),
    ("nobody is left", [*RELEASED, fenced(NEW), fenced(OLD)], BOTH_DEAD, 100, Do.ABORT, "up"),
    ("released inside a batch", INTERRUPTED, BOTH, 100, Do.FENCE, OLD),
    ("failed inside a batch", [*RUNNING, failed(OLD, boundary="interrupted")], {OLD: True}, 100, Do.FENCE, OLD),
    ("stopped on request", STOPPED, BOTH, 100, Do.WAIT, ""),
    ("stopped on request, by dying", [*STOPPING, fenced(OLD)], BOTH, 100, Do.WAIT, ""),
    ("finished by itself", [*RUNNING, finished(OLD)], {OLD: False}, 100, Do.WAIT, ""),
    ("SIGTERM, and still there", DOWN, {OLD: True}, 100, Do.REQUEST, OLD),
    ("SIGTERM, how it is is not known", DOWN, {}, 100, Do.WAIT, ""),
    ("SIGTERM, gone, with its deployment", DOWN, {OLD: False}, 100, Do.DECLARE, OLD_D),
    ("dead, the old one is warm", [*HANDED_OVER, fenced(NEW)], {OLD: True}, 100, Do.WAIT, ""),
    ("failed, the old one is warm", [*HANDED_OVER, failed(NEW)], BOTH, 100, Do.DECLARE, NEW_D),
    ("it comes up", [*HANDED_OVER, failed(NEW), AGAIN_NEW], BOTH, 300, Do.WAIT, ""),
    ("it does not, and the old one is warm", [*HANDED_OVER, failed(NEW), AGAIN_NEW], BOTH, 401, Do.REQUEST, OLD),
    ("it does not, and nobody is warm", [*HANDED_OVER, failed(NEW), AGAIN_NEW], {OLD: False}, 401, Do.WAIT, ""),
    ("dead, its twin is warm", [*HANDED_OVER, standby(TWIN), fenced(NEW)], {TWIN: True}, 100, Do.REQUEST, TWIN),
    ("one that never ran is not appointed", [*PREPARED, fenced(OLD)], {NEW: True, OLD_D: False}, 100, Do.FAIL, OLD_D),
    ("its deployment may come up again by itself", DEAD, {OLD_D: None}, 100, Do.WAIT, ""),
    ("nothing of it is left", DEAD, {OLD_D: False}, 100, Do.FAIL, OLD_D),
    ("then its release is run again", [*DEAD, failed(None, OLD_D)], {}, 100, Do.DECLARE, OLD_D),
    ("which comes up", [*FAILED, AGAIN], {}, 100, Do.WAIT, ""),
    ("or does not", [*FAILED, AGAIN], {"orders-1-again": False}, 100, Do.FAIL, "orders-1-again"),
    ("the last is run again", [*HANDED_OVER, retired(OLD_D), failed(NEW)], {}, 100, Do.DECLARE, NEW_D),
    ("one that failed is, when there is no other", FAILED, {}, 100, Do.DECLARE, OLD_D),
    ("aborted, it is down", [*REQUESTED, fenced(OLD), aborted("up", at=200)], {OLD_D: True}, 300, Do.WAIT, ""),
    ("another release is not waited for", [*FAILED, declared(NEW_D)], {NEW_D: True}, 100, Do.DECLARE, OLD_D),
]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "alive", "now", "need", "subject"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_next_step(before: list[Record], alive: dict[str, bool], now: float, need: Do, subject: str) -> None:
    step = recovery_step(play(before), alive, now)
    assert (step.action, step.subject) == (need, subject)
    assert bool(step.reason) == (need is not Do.WAIT)


def test_only_a_release_that_never_committed_is_followed_by_an_older_one() -> None:
    step = recovery_step(play([*HANDED_OVER, failed(NEW, committed=False)]), {OLD: True}, 100)
    assert (step.action, step.subject) == (Do.REQUEST, OLD)
    cold = play([*HANDED_OVER, retired(OLD_D), failed(NEW, committed=False)])
    step = recovery_step(cold, {}, 100)
    assert (step.action, step.subject) == (Do.DECLARE, OLD_D)
    first = recovery_step(play([*RUNNING, failed(OLD, committed=False)]), {}, 100)
    assert (first.action, first.subject) == (Do.DECLARE, OLD_D), "there is no older one"
    for committed in (True, None):
        step = recovery_step(play([*HANDED_OVER, failed(NEW, committed=committed)]), {OLD: True}, 100)
        assert (step.action, step.subject) == (Do.DECLARE, NEW_D)


def test_a_release_that_was_tried_twice_and_never_committed_is_followed_by_an_older_one() -> None:
    """Found by the simulation: only the last try counted as one that never committed, and the watch tried for ever."""
    again = "orders-2-again.00000009"
    twice = [
        *HANDED_OVER,
        failed(NEW, committed=False),
        declared_again("orders-2-again", NEW_D),
        standby(again),
        requested("more", again),
        ready("more", again),
        acquired(again, "more", 3),
        failed(again, committed=False),
    ]
    step = recovery_step(play(twice), {OLD: True}, 100)
    assert (step.action, step.subject) == (Do.REQUEST, OLD)


def tried(which: str, number: int, at: float = 100.0) -> list[Record]:
    """The watch declares a release again, and it does not come up."""
    name = f"{which}-again{number}"
    return [declared_again(name, which, at=at), failed(None, name)]


# NEW fails before it has committed anything, since the sink is out; OLD, which was warm, follows, and fails, too.
BOTH_FAILED = [
    *HANDED_OVER[:-2],
    released(OLD, "up", NEW, committed=True),
    HANDED_OVER[-1],
    failed(NEW, committed=False),
    requested("back", OLD),
    ready("back", OLD),
    acquired(OLD, "back", 3),
    failed(OLD, committed=True),
]


def test_a_release_that_never_committed_takes_turns_with_an_older_one_that_does_not_come_up() -> None:
    """Found by a review: once the older release had held there was no way forward, though it could never come up."""
    story, order = list(BOTH_FAILED), []
    for number in range(10):
        step = recovery_step(play(story), {}, 200)
        assert step.action is Do.DECLARE
        order.append(step.subject)
        story += tried(step.subject, number)
    assert order == [OLD_D] * TRIES + [NEW_D] * TRIES + [OLD_D] * TRIES + [NEW_D]
    # Only for a day, and not once a person has retired it.
    assert recovery_step(play(story), {}, 100 + OPEN_SECONDS).subject == OLD_D
    # One that comes to hold ends that.
    name = "orders-1-comes.00000007"
    holds = [declared_again("orders-1-comes", OLD_D), standby(name)]
    holds += [requested("it", name), ready("it", name), acquired(name, "it", 4), failed(name, committed=False)]
    assert recovery_step(play([*story, *holds]), {}, 200).subject == "orders-1-comes"


def test_who_is_tried_in_place_of_whom_is_said() -> None:
    assert tried_instead(play([]), 100) == tried_instead(play(FAILED), 100) == ""
    assert tried_instead(play([*HANDED_OVER, failed(NEW)]), 100) == ""
    both = play(BOTH_FAILED)
    said = f"The watch tries release 1 ({OLD_D}) in place of release 1 ({NEW_D}), which has never committed a batch."
    assert tried_instead(both, 100) == recovery_step(both, {}, 100).reason == said
    thrice = play([*BOTH_FAILED, *(one for number in range(TRIES) for one in tried(OLD_D, number))])
    said = (
        f"The watch tries release 1 ({NEW_D}) in place of release 1 ({OLD_D}), which has not come up 3 times in a row."
    )
    assert recovery_step(thrice, {}, 100).reason == said
    warm = recovery_step(play([*HANDED_OVER, failed(NEW, committed=False)]), {OLD: True}, 100)
    assert warm.reason.startswith(
        f"It stands by. The watch tries release 1 ({OLD_D}) in place of release 1 ({NEW_D}), "
    )


def test_what_a_roll_back_has_put_aside_is_neither_appointed_nor_brought_up() -> None:
    drained = [*HANDED_OVER, retired(OLD_D), released(NEW, None, None)]
    by = "airflow:orders__upgrade/run/roll_back"
    back = declared_again("orders-1-back", OLD_D, instead_of=NEW_D, by=by)
    assert recovery_step(play(drained), {NEW: True}, 110).action is Do.REQUEST
    for now in (110, 100 + COME_UP_SECONDS + 1):
        assert recovery_step(play([*drained, back]), {NEW: True}, now).action is Do.WAIT
    dead = play([*drained, fenced(NEW)])
    assert [d.id for d in coming_up(dead)] == [NEW_D]
    assert [d.id for d in coming_up(play([*drained, fenced(NEW), back]))] == ["orders-1-back"]
    none_left = play([*drained, fenced(NEW), back, failed(None, "orders-1-back")])
    step = recovery_step(none_left, {}, 110)
    assert (step.action, step.subject) == (Do.DECLARE, "orders-1-back")


def test_what_is_to_read_records_again_is_put_in_charge_by_its_upgrade_alone() -> None:
    """Found by a review: it was appointed while a person was asked, and failed where the last holder was lost."""

    def same(record: Record) -> Record:
        of_new = record.kind == "declared" and record["deployment"] == NEW_D
        wanted = {"rewind": {"to": 1764000000.0, "queries": {"a": {"orders": {"0": 5}}}}}
        release = {"version": "1", "hash": hash_of(OLD_D)}
        return replace(record, fields={**record.fields, "release": release, **wanted}) if of_new else record

    prepared = [same(each) for each in PREPARED]
    for lost in (released(OLD, None, None), fenced(OLD), failed(OLD)):
        alive = {NEW: True, OLD: False, NEW_D: True, OLD_D: False}
        alone = recovery_step(play([*RUNNING, lost]), alive, 200.0)
        for before in (prepared, prepared[:-1]):
            assert recovery_step(play([*before, lost]), alive, 200.0) == alone, "as if it were not there"
    again = [*prepared, released(OLD, None, None), AGAIN]
    assert recovery_step(play(again), OLD_DEAD, AGAIN.at).action is Do.WAIT
    late = recovery_step(play(again), OLD_DEAD, AGAIN.at + COME_UP_SECONDS + 1)
    assert (late.action, late.subject) == (Do.REQUEST, NEW), "better than nobody"
    held = [*prepared, requested("up", NEW), ready("up", NEW), released(OLD, "up", NEW), acquired(NEW, "up", 2)]
    step = recovery_step(play([*held, released(NEW, None, None)]), {NEW: True}, 200.0)
    assert (step.action, step.subject) == (Do.REQUEST, NEW), "it has held"


def test_every_need_is_shown_above() -> None:
    assert {row[4] for row in TABLE} == set(Do)
