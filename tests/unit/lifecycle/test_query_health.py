"""How a query is, through a heartbeat's JSON, and in words."""

from __future__ import annotations

import json

import pytest

from airflow_stream_provider.lifecycle.heartbeat import OffsetRange, QueryHealth

ILL = QueryHealth(
    "retrying",
    61.5,
    7,
    "ValueError: bad",
    "OSError: full",
    8,
    (OffsetRange("orders-3", "5", "9"), OffsetRange("orders-4", end="2")),
    12,
    "The log ended earlier.",
    3.0,
)


def test_it_is_read_as_it_was_written_also_of_a_newer_driver() -> None:
    written = json.loads(json.dumps(ILL.to_json()))
    written["new"] = written["ranges"][0]["new"] = 1
    assert QueryHealth.from_json(written) == ILL


@pytest.mark.parametrize("said", [{"ranges": [5]}, {"seconds": "long"}, {"ranges": [{"source": 5}]}])
def test_what_cannot_be_read_is_refused(said: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"is no|is 'long'|source is 5"):
        QueryHealth.from_json(said)


def test_what_a_batch_reads_is_said_in_words() -> None:
    assert ILL.reads == "orders-3 from 5 to 9, orders-4 from ? to 2 and 12 more"
    assert QueryHealth().reads == ""
