"""Whether a batch follows a ledger: again, next, gap, overlap, other sources, other writers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.sinks.ledger import (
    Batch,
    Entry,
    Fenced,
    Gap,
    OtherSource,
    Overlap,
    SinkRefused,
    is_to_be_written,
)

ENTRY = Entry("orders", "daily", 3, "me", "driver b", "q1", 7, [{"orders": {"0": 20, "1": 5}}])


def batch(begins: Any, ends: Any = None, query: str = "q1", number: int = 8) -> Batch:
    return Batch(query, number, [begins], [ends or {"orders": {"0": 30, "1": 5}}])


@pytest.mark.parametrize(
    "given",
    [
        batch({"orders": {"0": 20, "1": 5}}),
        batch({"orders": {"0": 20, "1": 5}}, query="q2", number=0),  # a new checkpoint that begins where the sink is
        batch({"orders": {"0": 20, "1": 5, "2": 0}}),  # a new partition
        batch({"orders": {"0": 20, "1": 5}, "more": {"0": 3}}),  # one more topic
        batch({"orders": {"0": 20, "1": 5}}, {"orders": {"0": 20, "1": 5}}),  # no data: it may emit rows all the same
    ],
)
def test_a_batch_that_begins_where_the_sink_is_is_written(given: Batch) -> None:
    assert is_to_be_written(ENTRY, "me", given)


def test_a_batch_that_is_in_the_sink_is_skipped() -> None:
    assert not is_to_be_written(ENTRY, "me", Batch("q1", 7, [None], [{"orders": {"0": 20, "1": 5}}]))


def test_the_first_batch_of_a_ledger_may_begin_anywhere() -> None:
    new = Entry("orders", "daily", 1, "me", "driver a")
    assert is_to_be_written(new, "me", batch({"orders": {"0": 7}}, number=0))


@pytest.mark.parametrize(
    ("begins", "error", "fields"),
    [
        ({"orders": {"0": 25, "1": 5}}, Gap, {"topic": "orders", "partition": "0", "begins": 25, "known": 20}),
        ({"orders": {"0": 20, "1": 0}}, Overlap, {"topic": "orders", "partition": "1", "begins": 0, "known": 5}),
        ({"orders": {"0": 20}}, OtherSource, {"topic": "orders", "partition": "1"}),
        ({"other": {"0": 0}}, OtherSource, {"topic": "orders", "partition": "0"}),
        (None, Overlap, {"begins": None}),
        ({"logOffset": 3}, Overlap, {}),
    ],
)
def test_a_batch_that_begins_elsewhere_is_refused(
    begins: Any, error: type[SinkRefused], fields: dict[str, object]
) -> None:
    with pytest.raises(error) as found:
        is_to_be_written(ENTRY, "me", batch(begins))
    assert found.value.fields.items() >= fields.items()


def test_a_batch_that_would_move_the_ledger_back_is_refused() -> None:
    """Spark plans it, with `failOnDataLoss` false, where the topic was made anew."""
    new = Entry("orders", "daily", 1, "me", "driver a")
    backwards = batch({"orders": {"0": 20, "1": 5}}, {"orders": {"0": 4, "1": 5}})
    for entry in (ENTRY, new):
        with pytest.raises(OtherSource, match="partition 0, and ends at 4: the topic was made anew"):
            is_to_be_written(entry, "me", backwards)


def test_a_rewind_moves_the_ledger_back_in_the_batch_behind_it_alone() -> None:
    again = replace(batch({"orders": {"0": 10, "1": 5}}), rewound="orders-7")
    assert is_to_be_written(ENTRY, "me", again)
    for other in (replace(again, batch_id=9), replace(again, query_id="q2"), replace(again, rewound="")):
        with pytest.raises(Overlap):
            is_to_be_written(ENTRY, "me", other)
    with pytest.raises(Gap):
        is_to_be_written(ENTRY, "me", replace(again, begins=[{"orders": {"0": 25, "1": 5}}]))


def test_the_same_number_with_other_offsets_is_another_batch() -> None:
    with pytest.raises(Overlap):
        is_to_be_written(ENTRY, "me", Batch("q1", 7, [{"orders": {"0": 10, "1": 5}}], [{"orders": {"0": 25, "1": 5}}]))


def test_a_query_with_more_sources_is_refused() -> None:
    with pytest.raises(OtherSource):
        is_to_be_written(ENTRY, "me", Batch("q1", 8, [{"orders": {"0": 20, "1": 5}}, {"x": {"0": 0}}], [{}, {}]))


def test_sources_without_partitions_are_compared_as_a_whole() -> None:
    files = Entry("orders", "daily", 1, "me", "driver a", "q1", 3, [{"logOffset": 3}])
    assert is_to_be_written(files, "me", Batch("q1", 4, [{"logOffset": 3}], [{"logOffset": 4}]))
    with pytest.raises(Overlap):
        is_to_be_written(files, "me", Batch("q2", 0, [None], [{"logOffset": 0}]))


def test_a_driver_whose_claim_was_replaced_is_fenced() -> None:
    with pytest.raises(Fenced) as found:
        is_to_be_written(ENTRY, "somebody else", batch({"orders": {"0": 20, "1": 5}}))
    assert (found.value.fields["holder"], found.value.fields["epoch"]) == ("driver b", 3)
    assert "driver b has claimed the ledger of orders/daily with epoch 3" in str(found.value)
