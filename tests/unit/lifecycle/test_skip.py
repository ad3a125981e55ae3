"""The records that a stream leaves out: how they are named, and whose list counts."""

from __future__ import annotations

import pytest

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.skip import KafkaRecord, all_but, skipped
from tests.support.story import OLD_DEPLOYMENT, declared, play, wanted

A, B = "orders-3@12@1764000000000", "a.b-c-0@7@-1"


def policy(*skip: str) -> dict[str, list[str]]:
    return {"skip": [*skip]}


@pytest.mark.parametrize("text", [A, B, "orders-3@12"])
def test_a_record_is_read_as_it_is_written(text: str) -> None:
    assert str(KafkaRecord.of(text)) == text


def test_the_last_number_before_the_offset_is_the_partition() -> None:
    assert KafkaRecord.of(B) == ("a.b-c", 0, 7, -1)
    assert KafkaRecord.of(B).name == "a.b-c-0@7"


@pytest.mark.parametrize("text", ["", "orders", "orders-3", "orders@3", "orders-3@", "or'ders-3@1", "orders-3@1@x"])
def test_what_names_no_record_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="names no record"):
        KafkaRecord.of(text)


def test_spark_is_told_each_record_by_all_that_makes_it_one() -> None:
    one = "(topic = 'orders' AND partition = 3 AND offset = 12 AND unix_millis(timestamp) = 1764000000000)"
    other = "(topic = 'a.b-c' AND partition = 0 AND offset = 7 AND unix_millis(timestamp) = -1)"
    assert all_but([A]) == f"NOT ({one})"
    assert all_but([A, B]) == f"NOT ({one} OR {other})"
    with pytest.raises(SpecError, match="no timestamp"):
        all_but(["orders-3@12"])


def test_the_newest_list_counts_and_an_older_provider_says_nothing() -> None:
    first = [wanted("one", policy=policy(A)), declared(OLD_DEPLOYMENT, "one", policy=policy(A))]
    assert skipped(play([])) == ()
    assert skipped(play(first)) == (A,)
    assert skipped(play([*first, wanted("two", "stand_by", policy=policy(A, B))])) == (A, B)
    assert skipped(play([*first, wanted("two", "stand_by", policy=policy())])) == ()
    assert skipped(play([*first, wanted("two", "stand_by", policy={"lease_seconds": 5.0})])) == (A,)
    assert skipped(play([*first, wanted("rest", "stop")])) == (A,)
