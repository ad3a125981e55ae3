"""Work on several queries at the same time, and which error of it is raised."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.errors import CheckpointError, StreamError
from airflow_stream_provider.runtime.side_by_side import side_by_side

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


def test_without_another_thread_the_rest_is_done_in_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the queries whose threads had begun would start behind a record that says that the start has failed."""
    start = threading.Thread.start

    def first_only(thread: threading.Thread) -> None:
        if "prices" in thread.name:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", first_only)
    assert side_by_side(lambda query: query.label, QUERIES) == ["orders", "prices"]


def test_results_are_in_the_order_of_the_queries() -> None:
    assert side_by_side(lambda query: query.label, QUERIES) == ["orders", "prices"]
