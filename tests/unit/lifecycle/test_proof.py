"""What the ends of its holders say of a release."""

from __future__ import annotations

import pytest

from airflow_stream_provider.lifecycle.proof import SEVERAL, Proof
from tests.support.story import HANDED_OVER, NEW, OLD, RUNNING, TAKEN_BACK, fenced, finished, play, released
from tests.support.story import failed as fails


def proof(*ends: tuple[str, bool | None]) -> Proof:
    found = Proof()
    for kind, committed in ends:
        found = found.after(kind, committed)
    return found


@pytest.mark.parametrize(
    ("ends", "never"),
    [
        ([], False),
        ([("failed", False)], True),
        ([("failed", True)], False),
        ([("failed", None)] * 99, False),
        ([("fenced", False)] * (SEVERAL - 1), False),
        ([("fenced", False)] * SEVERAL, True),
        ([("released", False), ("finished", False)] * 99, False),
        ([("released", False), ("failed", False)], True),
        ([("fenced", None), ("failed", False)], False),
        ([("fenced", None), *[("failed", False)] * SEVERAL], True),
        ([("released", True), *[("failed", False)] * 99], False),
        ([("failed", False)] * 99 + [("released", True)], False),
        ([("failed", False), ("fenced", False)], True),
    ],
)
def test_an_older_release_follows_one_that_never_commits(ends: list[tuple[str, bool | None]], never: bool) -> None:
    assert proof(*ends).never is never


def test_what_is_no_truth_value_is_not_known() -> None:
    assert Proof().after("failed", "yes") == Proof(committed=None)


def test_the_newest_holder_of_a_release_tells_it_of_all() -> None:
    assert play(RUNNING).incarnations[OLD].proof == Proof()
    assert play([*RUNNING, finished(OLD)]).incarnations[OLD].proof == Proof(committed=None)
    state = play([*HANDED_OVER, fails(NEW, committed=False)])
    assert state.incarnations[NEW].proof == Proof(failed=True, in_vain=1)
    assert state.incarnations[OLD].proof == Proof(committed=None)


def test_one_that_holds_again_has_what_it_has_shown_before() -> None:
    story = [*TAKEN_BACK[:-2], released(OLD, "up", NEW, committed=True), TAKEN_BACK[-1], fenced(OLD, committed=False)]
    assert play(story).incarnations[OLD].proof == Proof(committed=True)
