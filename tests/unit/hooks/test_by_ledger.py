from __future__ import annotations

from typing import Any

from airflow_stream_provider.hooks.ledger import LedgerRow, by_ledger
from airflow_stream_provider.lag.committed_offsets import Committed


def row(query: str, query_id: str, batch: int, offset: int, **more: Any) -> LedgerRow:
    offsets = [{"t": {"0": offset}}] if query_id else ()
    return LedgerRow("orders", query, 1, "a driver", query_id, batch, offsets, 2, 1.0, 2.0, **more)


def test_the_sink_counts_where_it_has_the_query_and_the_checkpoint_says_all_else() -> None:
    enrich = Committed("enrich", {"t": {0: 2}, "new": {}}, batch=1, id="e", noted={"t": "q0"}, quiet_until=9.0)
    totals = Committed("totals", {"t": {0: 2}}, batch=1, id="t")
    found = by_ledger([row("orders", "e", 2, 3)], [enrich, totals])
    assert found[0] == Committed(
        "enrich", {"t": {0: 3}, "new": {}}, batch=2, id="e", noted={"t": "q0"}, quiet_until=9.0
    )
    assert found[1] == totals


def test_a_sink_that_was_claimed_only_says_nothing_of_a_query_that_has_no_id() -> None:
    damaged = Committed("enrich", problem="It is damaged.")
    assert by_ledger([row("orders", "", -1, 0)], [damaged]) == [damaged]


def test_of_two_sinks_the_one_that_is_behind_counts() -> None:
    for rows in ([row("a", "e", 2, 3), row("b", "e", 1, 2)], [row("a", "e", 1, 2), row("b", "e", 2, 3)]):
        assert by_ledger(rows, [Committed("enrich", {"t": {0: 3}}, id="e")])[0].offsets == {"t": {0: 2}}


def test_where_the_checkpoint_cannot_be_read_the_sink_tells() -> None:
    (found,) = by_ledger([row("orders", "e", 2, 3)], [Committed("enrich", problem="It is away.", id="e")])
    assert (found.problem, found.offsets, found.batch) == ("", {"t": {0: 3}}, 2)


def test_a_stream_that_has_never_run_is_where_a_job_of_its_name_is() -> None:
    assert [(each.query, each.batch) for each in by_ledger([row("orders", "e", 2, 3)], [])] == [("orders", 2)]
    assert by_ledger([], []) == []
