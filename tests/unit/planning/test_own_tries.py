"""Which deployment a task works on when those before it were lost, and when it gives up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.start import TRIES, end_lost, own_tries
from airflow_stream_provider.planning.steps import GiveUp
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from tests.support.snapshots import ME, appended, given_up, snapshot, up
from tests.support.story import acquired, declared, failed, fenced, ready, record, requested, retired, submitted

NAMES = [ME.deployment("orders", "1", lost) for lost in range(TRIES + 1)]
DRIVERS = [f"{name}.00000009" for name in NAMES]


def never_up(name: str) -> list[Record]:
    return [declared(name), submitted(name), failed(None, name)]


def own(*records: Record) -> tuple[str, ...]:
    return own_tries(snapshot(*records).state, ME, "orders", "1")


def test_the_first_one_has_the_id_that_it_always_had() -> None:
    assert own() == (ME.deployment("orders", "1"),)
    assert len(set(NAMES)) == len(NAMES)


@given(st.integers(0, TRIES), st.booleans())
def test_the_next_one_comes_after_all_that_were_lost(lost: int, is_declared: bool) -> None:
    records = [record for name in NAMES[:lost] for record in never_up(name)]
    assert own(*records, *([declared(NAMES[lost])] if is_declared else [])) == tuple(NAMES[: lost + 1])


def test_only_a_driver_that_never_held_and_does_not_say_why_it_ended_is_lost() -> None:
    first, held = up(DRIVERS[0]), [requested("a", DRIVERS[0]), ready("a", DRIVERS[0]), acquired(DRIVERS[0], "a", 1)]
    assert len(own(*first, fenced(DRIVERS[0]), failed(None, NAMES[0]))) == 2
    assert len(own(*first, failed(DRIVERS[0]))) == 1
    assert len(own(*first, retired(NAMES[0]))) == 1
    assert len(own(*first, *held, fenced(DRIVERS[0]), failed(None, NAMES[0]))) == 1


def test_a_deployment_of_which_a_driver_was_fenced_is_ended_first() -> None:
    records = [*up(DRIVERS[0]), fenced(DRIVERS[0])]
    step = end_lost(snapshot(*records), own(*records), None)
    assert appended(step, "deployment", "error") == ("failed", NAMES[0], "")
    assert end_lost(snapshot(*up(DRIVERS[0])), NAMES[:1], None) is None
    assert end_lost(snapshot(declared(NAMES[0])), NAMES[:1], None) is None


def test_a_person_who_says_that_it_is_dead_wants_no_other_one() -> None:
    word = record("fenced", incarnation=DRIVERS[0], reason="dead", evidence={"person": "Anna"}, by="person:anna")
    records = [*up(DRIVERS[0]), word, failed(None, NAMES[0])]
    assert "person:anna has fenced it since" in given_up(end_lost(snapshot(*records), own(*records), None))


def test_a_try_gives_up_after_some_and_the_next_one_begins_with_one_more() -> None:
    gone = WaitOutcome(Ended.GONE, NAMES[-2])
    for lost in range(1, TRIES + 1):
        records = [record for name in NAMES[:lost] for record in never_up(name)]
        found, seen = own(*records), snapshot(*records)
        assert end_lost(seen, found, None) is None
        step = end_lost(seen, found, gone)
        assert isinstance(step, GiveUp) is (lost == TRIES)
    assert isinstance(step, GiveUp)
    assert f"{TRIES} drivers were lost one after the other" in str(step.error)
    assert "clear this task: it starts one more" in str(step.error)
    assert step.log_of == NAMES[-2]
