"""Which release runs a stream that has no holder."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.choice import OPEN_SECONDS, TRIES, Family, choose, coming_up, tried_instead
from tests.support.snapshots import RELEASED, RUNNING, STOPPED, UPGRADED, snapshot, up
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    acquired,
    declared,
    failed,
    fenced,
    hash_of,
    ready,
    released,
    requested,
    standby,
    wanted,
)

HAD = [*RELEASED[:-1], released(OLD, "mine", NEW, committed=True), UPGRADED[-1]]  # OLD has committed
BACK_WISH = wanted("back", family="old", back=True)


def chosen(*records: Record, now: float = 200.0) -> Family:
    state = snapshot(*records).state
    assert state.wish is not None
    return choose(state, state.wish, now)


def tried(family: str, number: int) -> list[Record]:
    """A deployment that serves a family, and does not come up."""
    return [declared(f"o-{number}", family, again="x"), failed(None, f"o-{number}")]


def held(name: str, family: str, epoch: int, **end: Any) -> list[Record]:
    """One that comes to hold, with the release of NEW where it serves that family, and fails."""
    release = {"version": "1", "hash": hash_of({"new": NEW_DEPLOYMENT}.get(family, family))}
    begins = [declared(deployment_of(name), family, release=release), standby(name)]
    return [*begins, requested(name, name), ready(name, name), acquired(name, name, epoch), failed(name, **end)]


NEW_ENDS: list[tuple[str, list[Record], str]] = [
    ("it failed, and committed or may have", [failed(NEW)], "new"),
    ("it had committed", [failed(NEW, committed=True)], "new"),
    ("it failed before it had committed", [failed(NEW, committed=False)], "old"),
    ("it was killed before it had committed, once", [fenced(NEW, committed=False)], "new"),
    ("and failed so since", [fenced(NEW, committed=False), *held("o-9.00000009", "new", 3, committed=False)], "old"),
    ("it was drained, and failed so since",
     [released(NEW, None, None, committed=False), *held("o-9.00000009", "new", 3, committed=False)], "old"),
    ("it failed so since an outage in which it had committed",
     [fenced(NEW, committed=True), *held("o-9.00000009", "new", 3, committed=False)], "new"),
    ("it does not come up any more", [failed(NEW), *(r for n in range(9) for r in tried("new", n))], "new"),
]  # fmt: skip


@pytest.mark.parametrize(("ends", "family"), [row[1:] for row in NEW_ENDS], ids=[row[0] for row in NEW_ENDS])
def test_an_older_release_follows_only_one_that_never_commits(ends: list[Record], family: str) -> None:
    assert chosen(*UPGRADED, *ends).id == family


def test_an_outage_of_a_day_does_not_bring_back_an_older_release() -> None:
    """Found by a review: the holder that had proven the release was forgotten after a hundred tries in the outage."""
    story = [*UPGRADED, fenced(NEW, committed=True), failed(None, NEW_DEPLOYMENT)]
    for number in range(120):
        story += held(f"o-{number}.00000009", "new", 3 + number, committed=False)
    assert NEW not in snapshot(*story).state.incarnations
    assert chosen(*story).id == "new"


def test_a_release_that_never_committed_takes_turns_with_the_one_before() -> None:
    """Found by a review: once the older release had held there was no way forward, though it could never come up."""
    story, order = [*HAD, failed(NEW, committed=False)], []
    for number in range(10):
        order.append(chosen(*story).id)
        story += tried(order[-1], number)
    assert order == ["old"] * TRIES + ["new"] * TRIES + ["old"] * TRIES + ["new"]
    # Only for a day.
    assert chosen(*story, now=101.0 + OPEN_SECONDS).id == "old"
    # One that comes to hold begins that anew.
    assert chosen(*story, *held("o-99.00000009", "new", 3, committed=False)).id == "old"
    # A new wish does, too.
    assert chosen(*story, wanted("more", family="new")).id == "old"


def test_a_release_that_does_not_come_up_takes_turns_with_the_one_before() -> None:
    story, order = [*HAD[:-4], failed(OLD, committed=True)], []
    for number in range(10):
        order.append(chosen(*story).id)
        story += tried(order[-1], number)
    assert order == ["new"] * TRIES + ["old"] * TRIES + ["new"] * TRIES + ["old"]


def test_without_a_release_before_it_goes_on_alone() -> None:
    first = [*RUNNING, failed(OLD, committed=False)]
    for number in range(9):
        assert chosen(*first) == Family("old")
        first += tried("old", number)
    stopped = [*UPGRADED, wanted("rest", "stop"), failed(NEW), wanted("third")]
    for number in range(9):
        assert chosen(*stopped).id == "third"
        stopped += tried("third", number)


def test_after_a_stop_one_that_never_commits_gives_way_to_the_last_that_did() -> None:
    stopped = [*HAD, failed(NEW, committed=False), wanted("rest", "stop"), wanted("third")]
    assert chosen(*stopped, *held("o-9.00000009", "third", 3, committed=False)).id == "old"


def test_a_roll_back_does_not_go_forth_before_it_has_come_to_hold() -> None:
    story = [*HAD, failed(NEW, committed=True), BACK_WISH]
    for number in range(9):
        assert chosen(*story).id == "old"
        story += tried("old", number)
    back = [*HAD, BACK_WISH, requested("b", OLD), ready("b", OLD), released(NEW, "b", OLD, committed=True)]
    again = [*back, acquired(OLD, "b", 3), failed(OLD, committed=False)]
    assert chosen(*again).id == "old", "it had committed before"


def test_what_reads_records_again_is_put_in_charge_only_where_it_is_known_after_which_batch() -> None:
    """Found by a review: it was appointed while a person was asked, and failed where the last holder was lost."""
    rewinds = [*RUNNING, wanted("new", "stand_by", rewind={"to": 1.0}), *up(NEW, "new"),
               wanted("take", family="new", approved="x")]  # fmt: skip
    for end, family in ((fenced(OLD), "old"), (failed(OLD), "old"), (released(OLD, None, None), "new")):
        assert chosen(*rewinds, end).id == family
    taken = [*rewinds, requested("r", NEW), ready("r", NEW), released(OLD, "r", NEW), acquired(NEW, "r", 2)]
    assert chosen(*taken, fenced(NEW)).id == "new", "it has held"


def test_who_is_tried_in_place_of_whom_is_said() -> None:
    def instead(*records: Record) -> str:
        return tried_instead(snapshot(*records).state, 200.0)

    assert instead() == instead(*STOPPED) == instead(*RUNNING, failed(OLD)) == instead(*HAD, failed(NEW)) == ""
    old, new = f"Release 1 ({OLD_DEPLOYMENT})", f"release 1 ({NEW_DEPLOYMENT})"
    said = f"{old} runs in place of {new}, which has never committed a batch."
    assert instead(*HAD, failed(NEW, committed=False)) == said
    late = [*HAD[:-4], failed(OLD, committed=True), *(r for n in range(TRIES) for r in tried("new", n))]
    assert instead(*late) == f"{old} runs in place of release 1 (o-2), which does not come up."


def test_what_comes_up_has_no_driver_that_may_hold() -> None:
    story = [*UPGRADED, fenced(NEW), declared("o-1", "new"), wanted("x"), declared("o-2", "x"), failed(None, "o-2")]
    assert [each.id for each in coming_up(snapshot(*story).state)] == [NEW_DEPLOYMENT, "o-1"]
