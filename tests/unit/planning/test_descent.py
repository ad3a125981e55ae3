"""Which deployments run a release again, and what a roll-back wants instead."""

from __future__ import annotations

import pytest

from airflow_stream_provider.planning.descent import asked_for_last, family, origin, unwanted, wanted_instead
from tests.support.story import (
    HANDED_OVER,
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    acquired,
    failed,
    play,
    ready,
    released,
    requested,
    standby,
)
from tests.support.story import declared_again as again
from tests.support.there import there

BACK = "orders-1-cccc"
BACK_DRIVER = f"{BACK}.00000004"


BROKEN = [*HANDED_OVER, failed("orders-2-bbbb.00000002")]
ROLLED_BACK = [*BROKEN, again(BACK, OLD_DEPLOYMENT, instead_of=NEW_DEPLOYMENT)]


def test_a_family_is_what_was_declared_to_run_a_release_again() -> None:
    state = play([*BROKEN, again("b", NEW_DEPLOYMENT), again("c", "b"), again("d", OLD_DEPLOYMENT)])
    assert family(state, NEW_DEPLOYMENT) == {NEW_DEPLOYMENT, "b", "c"}
    assert family(state, "b") == {"b", "c"}
    assert family(state, OLD_DEPLOYMENT) == {OLD_DEPLOYMENT, "d"}


def test_a_roll_back_puts_aside_what_held_last_until_it_is_carried_out() -> None:
    assert wanted_instead(play(BROKEN)) is None
    state = play([*ROLLED_BACK, again("b", NEW_DEPLOYMENT)])
    assert there(wanted_instead(state)).id == BACK
    assert unwanted(state) == {NEW_DEPLOYMENT, "b"}


@pytest.mark.parametrize("to", [OLD, BACK_DRIVER])
def test_once_another_has_held_nothing_is_aside(to: str) -> None:
    up = [standby(BACK_DRIVER), requested("go", to), ready("go", to), acquired(to, "go", 3)]
    state = play([*ROLLED_BACK, *up])
    assert wanted_instead(state) is None
    assert unwanted(state) == frozenset()


def test_what_a_person_deployed_after_the_roll_back_was_declared_is_not_rolled_back_from() -> None:
    later = "b.00000009"
    up = [again("b", NEW_DEPLOYMENT), standby(later), requested("go", later), ready("go", later)]
    assert wanted_instead(play([*ROLLED_BACK, *up, acquired(later, "go", 3), failed(later)])) is None


GIVEN_UP = [*HANDED_OVER, again(BACK, OLD_DEPLOYMENT, instead_of=NEW_DEPLOYMENT), failed(None, BACK)]


def test_a_roll_back_that_has_failed_while_the_release_held_on_is_given_up() -> None:
    assert wanted_instead(play(GIVEN_UP)) is None
    assert unwanted(play([*GIVEN_UP, failed(NEW)])) == frozenset()
    assert unwanted(play([*GIVEN_UP, released(NEW, None, None)])) == frozenset()
    tried_again = [*GIVEN_UP, again("d", OLD_DEPLOYMENT, instead_of=NEW_DEPLOYMENT), failed(NEW)]
    assert unwanted(play(tried_again)) == {NEW_DEPLOYMENT}


def test_a_holder_that_takes_the_stream_back_is_rolled_back_from_all_the_same() -> None:
    begun = [*HANDED_OVER, again(BACK, OLD_DEPLOYMENT, instead_of=NEW_DEPLOYMENT), standby(BACK_DRIVER)]
    asked = [requested("back", BACK_DRIVER), ready("back", BACK_DRIVER), released(NEW, "back", BACK_DRIVER)]
    taken_back = [*begun, *asked, acquired(NEW, "back", 3)]
    for end in ([], [failed(NEW)]):
        chosen = there(wanted_instead(play([*taken_back, *end])))
        assert chosen.id == BACK


def test_a_release_that_was_put_in_charge_once_more_is_not_rolled_back_from() -> None:
    begun = [*HANDED_OVER, again(BACK, OLD_DEPLOYMENT, instead_of=NEW_DEPLOYMENT), released(NEW, None, None)]
    assert unwanted(play(begun)) == {NEW_DEPLOYMENT}
    up = [requested("go", NEW), ready("go", NEW), acquired(NEW, "go", 3)]
    assert unwanted(play([*begun, *up])) == frozenset()
    assert unwanted(play([*begun, *up, failed(NEW)])) == frozenset()


def test_the_origin_of_a_release_is_what_ran_it_first() -> None:
    state = play([*BROKEN, again("b", NEW_DEPLOYMENT), again("c", "b"), again("d", "gone"), again("e", "e")])
    found = {name: origin(state, name) for name in ("c", OLD_DEPLOYMENT, "d", "e")}
    assert found == {"c": NEW_DEPLOYMENT, OLD_DEPLOYMENT: OLD_DEPLOYMENT, "d": "d", "e": "e"}


def test_what_was_redeployed_or_declared_again_was_not_asked_for_by_the_yaml() -> None:
    assert asked_for_last(play([])) is None
    stored = again("orders-1-dddd", OLD_DEPLOYMENT, again=None, redeployed=True)
    for more in ([], [again(BACK, OLD_DEPLOYMENT)], [stored]):
        found = there(asked_for_last(play([*HANDED_OVER, *more])))
        assert found.id == NEW_DEPLOYMENT
