"""How long what a standby has rehearsed is taken for true."""

from __future__ import annotations

import pytest

from airflow_stream_provider.lifecycle.errors import CheckpointError
from airflow_stream_provider.runtime.surroundings import FRESH_SECONDS, STALE_SECONDS, Freshness
from tests.support.fake_driver import FakeClock


def lasts(found: Freshness) -> bool:
    return found.lasts("holder")


def test_a_look_that_finds_nothing_makes_it_last_and_only_a_rehearsal_makes_it_young() -> None:
    clock, looks = FakeClock(), ["", "other executors"]
    found = Freshness(lambda: looks.pop(0), lambda former: None, clock)
    assert lasts(found) is True
    clock.now += FRESH_SECONDS
    assert lasts(found) is False
    assert found.why_again("holder") == ""
    assert lasts(found) is True
    clock.now += FRESH_SECONDS
    assert found.why_again("holder") == "other executors"
    assert lasts(found) is False
    clock.now += STALE_SECONDS - 2 * FRESH_SECONDS
    assert found.why_again("holder") == f"its rehearsal is {STALE_SECONDS:.0f} s old"
    found.rehearsed("a", False)
    assert lasts(found) is True
    clock.now += STALE_SECONDS - 1
    looks.append("")
    assert found.why_again("holder") == ""


def test_an_error_of_the_look_is_not_taken_for_fresh() -> None:
    def stale() -> str:
        raise CheckpointError("It is broken.")

    clock = FakeClock()
    found = Freshness(stale, lambda former: None, clock)
    clock.now += FRESH_SECONDS
    with pytest.raises(CheckpointError):
        found.why_again("holder")
    assert lasts(found) is False


def test_it_is_compared_once_with_each_last_holder_that_it_has_not_rehearsed_against() -> None:
    compared: list[object] = []
    found = Freshness(lambda: "", compared.append, FakeClock())
    found.rehearsed("a", False)
    for holder in ("a", "b", "b"):
        found.check_fits(holder, lambda: [{"name": "orders"}])
    assert compared == [[{"name": "orders"}]]


def test_plans_alone_do_for_a_stream_without_a_holder_and_for_no_other() -> None:
    found = Freshness(lambda: "", lambda former: None, FakeClock())
    found.rehearsed("a", True)
    assert (found.lasts(None), found.why_again(None)) == (True, "")
    assert (found.lasts("b"), found.why_again("b")) == (False, "only its plans were rehearsed")
    found.rehearsed("b", False)
    assert found.lasts("b")
