"""Work on several queries at the same time, and which error of it is raised."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.errors import CheckpointError, StreamError
from airflow_stream_provider.runtime import query_group
from airflow_stream_provider.runtime.ports import BoundaryMissed, QueryEnd
from airflow_stream_provider.runtime.query_group import QueryGroup, side_by_side

QUERIES: list[Any] = [SimpleNamespace(label="orders"), SimpleNamespace(label="prices")]


def test_an_error_names_its_query_and_keeps_its_words() -> None:
    cause = ValueError("no such topic")

    def work(query: Any) -> None:
        if query.label == "prices":
            raise cause

    with pytest.raises(StreamError) as caught:
        side_by_side(work, QUERIES)
    assert caught.value.message == "The query prices failed: no such topic"
    assert "The driver's log has the whole stack trace." in caught.value.next_step
    assert caught.value.__cause__ is cause


def test_an_error_of_this_package_stays_as_it_is() -> None:
    mine = CheckpointError("Another stream owns it.", next_step="Choose another folder.")

    def work(query: Any) -> None:
        raise mine

    with pytest.raises(CheckpointError) as caught:
        side_by_side(work, QUERIES)
    assert caught.value is mine


def test_results_are_in_the_order_of_the_queries() -> None:
    assert side_by_side(lambda query: query.label, QUERIES) == ["orders", "prices"]


def test_one_query_that_misses_its_boundary_is_seen_whatever_the_others_are_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Found by a review: by label, the end of a namesake stood for it, and `released` was written while it ran."""
    missed = BoundaryMissed("It is still running a batch.")
    ends: dict[Any, Any] = {1: missed, 2: QueryEnd(completed=True, batch=7)}

    def stop(real: Any, seconds: float) -> QueryEnd:
        if isinstance(ends[real], BoundaryMissed):
            raise ends[real]
        return QueryEnd(completed=True, batch=7)

    monkeypatch.setattr(query_group, "stop_at_boundary", stop)
    gate: Any = SimpleNamespace(live=lambda: [SimpleNamespace(label="checkpoint", real=real) for real in ends])
    assert QueryGroup(gate, lambda location: None).stop(1.0)[1] is missed
