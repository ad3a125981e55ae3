"""The gates in front of a change of holder: approval, judgement, and whether there is a way back."""

from __future__ import annotations

from dataclasses import replace

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.gates import closed, no_way_back_to
from tests.support.rehearsals import again, running
from tests.support.snapshots import BOTH, RELEASED, RUNNING, SEEN, STOPPED, UPGRADED, scene, seen_by, snapshot, up
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    acquired,
    failed,
    hash_of,
    ready,
    released,
    requested,
    wanted,
)


def there_is_no_way_back(records: list[Record], **beats: Heartbeat) -> str:
    found = replace(snapshot(*records), heartbeats={OLD if name == "old" else NEW: b for name, b in beats.items()})
    return no_way_back_to(found, "old")


def test_there_is_a_way_back_unless_a_rehearsal_has_seen_otherwise() -> None:
    assert there_is_no_way_back(UPGRADED) == ""
    assert there_is_no_way_back(seen_by(OLD, UPGRADED)) == "", "that was the release itself"
    assert there_is_no_way_back(seen_by(NEW, BOTH)) == "", "it has never held"
    said = there_is_no_way_back(seen_by(NEW, UPGRADED))
    assert said.startswith(f"There is no way back from release 1 ({NEW_DEPLOYMENT}): {SEEN} The release before")


def test_what_only_a_later_rehearsal_has_seen_is_in_the_heartbeat() -> None:
    assert SEEN in there_is_no_way_back(UPGRADED, new=Heartbeat(rehearsal={"one_way": [SEEN, 1]}))
    assert there_is_no_way_back(UPGRADED, new=Heartbeat()) == ""
    assert there_is_no_way_back(UPGRADED, new=Heartbeat(rehearsal={"one_way": "everything"})) == ""


def test_every_release_that_has_held_since_counts() -> None:
    third = "orders-3-cccc.00000003"
    more = [wanted("third"), *up(third, "third"), requested("r", third), ready("r", third), released(NEW, "r", third),
            acquired(third, "r", 3)]  # fmt: skip
    assert SEEN in there_is_no_way_back(seen_by(NEW, [*UPGRADED, *more]))


def shut(records: list[Record], wish: Record, *, holder: float | None = None, hangs: str = "") -> str:
    found = scene(*records, wish, hangs=hangs)
    if holder is not None:
        found = replace(found, snapshot=replace(found.snapshot, heartbeats={OLD: running(holder, 2.0)}))
    state = found.state
    assert state.wish is not None
    return str(closed(found, state.wish, state.incarnations.get(NEW)) or "")


TAKE = wanted("take", family="new")
APPROVED = wanted("take", family="new", approved="Ann")


def needs_approval(*more: Record) -> list[Record]:
    return [*RUNNING, wanted("new", "stand_by", approval=True), *up(NEW, "new"), *more]


def test_a_person_approves_a_release_that_has_never_held() -> None:
    said = shut(needs_approval(), TAKE)
    assert "Release 1 has never held the stream, and a person has to approve it (`upgrade.approval`)." in said
    assert shut(needs_approval(), APPROVED) == ""
    assert shut(needs_approval(), TAKE, hangs="It hangs.") == said
    taken = [requested("r", NEW), ready("r", NEW), released(OLD, "r", NEW), acquired(NEW, "r", 2)]
    assert shut(needs_approval(APPROVED, *taken, failed(NEW)), wanted("more", family="new")) == "", "it has held"
    assert shut(BOTH, TAKE) == "", "nobody wants that"


def test_a_start_of_a_release_that_has_held_needs_no_approval_and_an_upgrade_to_it_does() -> None:
    release = {"version": "1", "hash": hash_of(OLD_DEPLOYMENT)}
    assert shut(STOPPED, wanted("go", approval=True, release=release)) == ""
    assert shut(STOPPED, wanted("go", approval=True)) != ""
    same = [*RUNNING, wanted("new", "stand_by", approval=True, release=release), *up(NEW, "new")]
    assert shut(same, TAKE) != ""


def test_a_rehearsal_that_has_not_passed_waits_for_a_person_unless_any_release_is_better() -> None:
    slow = again(9.0)
    said = shut(slow, TAKE, holder=1.0)
    assert "waits for a person's approval, because its rehearsal has not passed: " in said
    assert shut(again(1.0), TAKE, holder=1.0) == ""
    assert shut(slow, APPROVED, holder=1.0) == ""
    assert shut(slow, TAKE, holder=1.0, hangs="It hangs.") == ""
    assert shut(slow[:-1], TAKE, holder=1.0) == "", "it has not rehearsed yet"


def test_a_roll_back_needs_a_way_back_and_nothing_else() -> None:
    back = wanted("back", family="old", back=True)
    assert shut(UPGRADED, back) == ""
    assert SEEN in shut(seen_by(NEW, UPGRADED), back)


def test_whoever_goes_back_needs_a_way_back_by_whatever_word() -> None:
    """A call-off that comes too late: the release that it keeps has given the stream up already."""
    late = [*RELEASED, wanted("no", family="old"), acquired(NEW, "mine", 2)]
    found = scene(*seen_by(NEW, late))
    assert found.state.wish is not None
    said = closed(found, found.state.wish, None)
    assert said is not None
    assert SEEN in str(said)


def test_the_verdict_on_a_rehearsal_is_no_persons_approval() -> None:
    gated = [*RUNNING, wanted("new", "stand_by", approval=True), *up(NEW, "new")]
    for approved, said in (("judged: pass", "a person has to approve it"), ("Ann", "")):
        found = scene(*gated, wanted("take", family="new", approved=approved))
        assert found.state.wish is not None
        why = closed(found, found.state.wish, None)
        assert said in str(why) if said else why is None
