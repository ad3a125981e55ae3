"""Which time is meant, and where it is in Kafka."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_stream_provider.lag.report import Ceilings, QueryLag
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.heartbeat import Commit, Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.rewind import WantedRewind, at
from airflow_stream_provider.planning.rewind import PartitionPast, find, moment, near_deletion, read_again, read_rewind

NOW = datetime(2026, 11, 25, 12, 0, tzinfo=UTC).timestamp()
TO = datetime(2026, 11, 25, 2, 0, tzinfo=UTC).timestamp()


def past(partition: int = 0, committed: int = 100, first: int | None = 40, **more: Any) -> PartitionPast:
    return PartitionPast(
        **{
            "topic": "orders",
            "first_at": TO + 1.0,
            "log_start": 0,
            **more,
            "partition": partition,
            "committed": committed,
            "first": first,
        }
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10h", TO),
        ("9h60m", TO),
        ("2026-11-25T02:00", TO),
        (" 2026-11-25T02:00:00 ", TO),
        ("2026-11-25 03:00+01:00", TO),
        ("2026-11-25T02:00:00.250Z", TO + 0.25),
        ("2026-11-25", TO - 7200),
        ("2026-11-25 02:00:00.250999", TO + 0.25),
        ("2026-11-25 02:00:00 UTC", TO),
    ],
)
def test_a_time_is_a_duration_before_now_or_one_in_utc_unless_it_says_otherwise(text: str, found: float) -> None:
    assert moment(text, NOW) == found


@pytest.mark.parametrize(
    "text", ["", "soon", "0s", "2026-11-25T12:00", "2027-01-01", "1764000000", "30000d", "99999999999d", "UTC", "-2h"]
)
def test_what_is_no_time_in_the_past_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match=r"is no time in the past\. Write it like"):
        moment(text, NOW)


def test_queries_go_back_to_the_first_record_since_then_and_never_forward() -> None:
    found = find(
        TO,
        {
            "out": [
                past(0),
                past(1, committed=2_050, first=50),
                past(2, first=None),
                past(3, first=100),
                past(4, first=170),
                past(0, topic="returns", committed=9, first=8),
            ],
            "late": [past(0, committed=20)],
        },
    )
    assert found.wanted == WantedRewind(TO, {"out": {"orders": {0: 40, 1: 50}, "returns": {0: 8}}})
    assert found.lines == ("out: 2,060 records of orders.", "out: 1 record of returns.")
    assert found.problem == ""
    assert find(TO, {"late": [past(0, committed=20)]}).wanted is None


def test_partitions_of_which_nothing_is_left_that_was_read_are_told() -> None:
    found = find(
        TO,
        {
            "out": [
                past(0),
                past(1, first=None, log_start=100),
                past(2, first=130, log_start=120),
                past(3, first=None, log_start=99),
                past(4, committed=0, first=None),
                past(5, topic="returns", first=None, log_start=100),
            ]
        },
    )
    gone = f"Kafka has deleted all that was read. Records since {at(TO)} that were among it are not read again."
    assert found.lines == (
        "out: 60 records of orders.",
        f"out: of 2 partitions of orders {gone}",
        f"out: of 1 partition of returns {gone}",
    )
    assert found.wanted == WantedRewind(TO, {"out": {"orders": {0: 40}}})


def test_what_kafka_is_about_to_delete_is_told_by_the_margin_of_the_preflight() -> None:
    near = QueryLag("out", retention_seconds=1200.0, retained=86400.0)
    assert near_deletion(near, Ceilings()) == (
        "Kafka deletes the first records that the query out reads again in 20 min. What is deleted before it is read "
        "stops the query, or with failOnDataLoss=false is left out without a word: give a later time, or let the topic "
        "keep its records for longer first (retention.ms)."
    )
    assert near_deletion(near, Ceilings(retention=600.0)) == ""
    assert near_deletion(replace(near, retained=2000.0), Ceilings()) == "", "half of what the topic keeps"


def test_records_that_kafka_has_deleted_cannot_be_read_again() -> None:
    """Without any before it, nobody can tell whether the first record that is left was the first since then."""
    gone = find(TO, {"out": [past(1, first=40, log_start=40, first_at=TO + 3600.0)]})
    assert gone.problem == (
        "Kafka may have deleted records since 2026-11-25 02:00:00 UTC that the query out would read again: the first "
        "one that is left of orders-1 is offset 40, of 2026-11-25 03:00:00 UTC. Give a later time."
    )
    assert gone.wanted is None
    assert find(TO, {"out": [past(1, first=40, log_start=39)]}).wanted is not None, "there is one of before"
    assert find(TO, {"out": [past(1, first=40, log_start=40, first_at=TO)]}).wanted is not None, "it is of that time"
    assert find(TO, {"out": [past(1, first=0, log_start=0)]}).wanted is not None, "nothing was ever deleted"
    assert find(TO, {"out": [past(1, first=200, log_start=200)]}).problem == "", "it is not read again"


def test_the_time_that_a_refusal_names_is_one_that_is_not_refused() -> None:
    """To the second it would be refused again: the record is later than that."""
    first = past(first=40, log_start=40, first_at=TO + 3600.251)
    said = re.search(r"of ([-0-9]+ [0-9:.]+ UTC)\.", find(TO, {"out": [first]}).problem)
    assert said is not None
    assert said[1] == "2026-11-25 03:00:00.251 UTC"
    assert find(moment(said[1], NOW), {"out": [first]}).wanted is not None


@pytest.mark.parametrize("ago", [7200.0, 7199.9991, 0.25, 86399.123456])
def test_a_time_that_people_are_shown_is_the_one_that_they_can_give(ago: float) -> None:
    found = moment(f"{ago}s", NOW)
    assert moment(at(found), NOW) == found


def test_records_in_front_of_a_gap_that_compaction_has_left_cannot_be_read_again() -> None:
    """A log begins at the offset of its first segment, of which the first records may be compacted away."""
    late = past(first=40, log_start=30, first_at=TO + 3600.0)
    assert find(TO, {"out": [replace(late, oldest=40)]}).problem
    assert find(TO, {"out": [replace(late, oldest=39)]}).problem == ""


def test_a_partition_that_was_silent_for_longer_than_its_topic_keeps_records_hinders_nobody() -> None:
    """It has a first record since then, and Kafka has deleted those of weeks ago."""
    silent = past(1, first=40, log_start=40, first_at=TO + 3600.0, kept_since=TO - 86400.0)
    found = find(TO, {"out": [past(0), silent]})
    assert found.problem == ""
    assert found.wanted == WantedRewind(TO, {"out": {"orders": {0: 40, 1: 40}}})
    assert found.lines[1] == (
        "out: of 1 partition of orders Kafka has deleted the records before the first one that is read again. By the "
        f"topic's retention.ms they were older than {at(TO)}, unless that was raised since, or somebody has deleted "
        "records by hand."
    )
    assert find(TO, {"out": [replace(silent, kept_since=TO + 1.0)]}).problem, "they may be of that time"


def test_a_record_that_is_dated_in_the_future_is_told() -> None:
    """The time of a producer that counts in microseconds is no date at all."""
    strange = past(2, first=3, first_at=TO * 1000)
    found = find(TO, {"out": [past(0), strange]}, NOW)
    assert found.lines[1] == (
        "out: orders-2 is read again from offset 3 on, whose record is dated in the future (9999-12-31 23:59:59 UTC): "
        "what is behind it is read again for any time that you give."
    )
    assert "of 9999-12-31" in find(TO, {"out": [replace(strange, first=40, log_start=40)]}).problem


def test_who_is_asked_sees_how_many_records_each_query_reads_again() -> None:
    wanted = WantedRewind(NOW, {"out": {"orders": {0: 7, 1: 9}, "new": {0: 0}}, "late": {"orders": {0: 7}}})
    ends = {"orders": {"0": 72, "1": 8}}
    beat = Heartbeat(queries=(QueryProgress("out", commits=(Commit(NOW), Commit(NOW, ends))), QueryProgress("late")))
    unknown = {"records_so_far": "not known", "from_offsets": {"0": 7}}
    assert read_again(wanted, beat) == {
        "since": at(NOW),
        "queries": {
            "late": {"orders": unknown},
            "out": {
                "new": {"records_so_far": "not known", "from_offsets": {"0": 0}},
                "orders": {"records_so_far": 65, "from_offsets": {"0": 7, "1": 9}},
            },
        },
    }
    assert read_again(wanted, None)["queries"]["late"] == {"orders": unknown}


def test_the_form_of_an_upgrade_takes_what_a_rewind_has_made_and_nothing_else() -> None:
    wanted = WantedRewind(TO, {"out": {"orders": {0: 40}}})
    assert read_rewind(json.dumps(wanted.to_json())) == wanted
    assert read_rewind("") is None
    for text in ("2h", "{}", "[]", "null", '{"to": 1}'):
        with pytest.raises(SpecError, match="fill in nothing by hand"):
            read_rewind(text)
