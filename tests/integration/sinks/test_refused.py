"""A driver on a lost machine is refused by the ledger, by the statements that Airflow runs, on real databases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from airflow_stream_provider.hooks import ledger as reading
from airflow_stream_provider.lifecycle.errors import ConnectionUnavailable
from airflow_stream_provider.planning.steps import Refusal
from airflow_stream_provider.sinks import Fenced
from tests.support.ledgers import batch
from tests.support.rows_in_hand import numbers
from tests.support.sql_places import MANAGED, SqlPlace, StandInHook

REFUSAL = Refusal("orders_db", MANAGED.holder, MANAGED.hold, ("q1",))
Refuse = Callable[[Refusal], str]


@pytest.fixture
def refuse(place: SqlPlace, orders: None, monkeypatch: pytest.MonkeyPatch) -> Refuse:
    monkeypatch.setattr(reading, "database_hook", lambda conn_id: StandInHook(place))
    return lambda refusal: reading.refuse_writer(refusal, "orders", "log")


def test_it_writes_nothing_more_and_the_next_one_goes_on(place: SqlPlace, refuse: Refuse) -> None:
    lost = place.ledger()
    lost.write(numbers(0, 10), batch(0, 0, 10))
    for _ in range(2):  # a task may be tried again
        assert refuse(REFUSAL) == ""
    with pytest.raises(Fenced, match=r"nobody: one\.a is refused has claimed the ledger"):
        lost.write(numbers(10, 20), batch(1, 10, 20))
    with pytest.raises(Fenced):
        place.ledger()
    next_one = place.ledger(replace(MANAGED, holder="two.b", hold=5))
    assert next_one.write(numbers(10, 15), batch(1, 10, 15)) == 5
    assert refuse(REFUSAL) == "", "a late one"
    assert next_one.write(numbers(15, 20), batch(2, 15, 20)) == 5
    assert place.counted() == (20, 20)


@pytest.mark.parametrize(
    "refusal",
    [
        replace(REFUSAL, queries=("q1", "q2")),
        replace(REFUSAL, epoch=6),
        replace(REFUSAL, epoch=3),
    ],
    ids=["a query without a ledger", "claimed in an earlier hold", "claimed in a later hold"],
)
def test_where_it_may_write_otherwise_nothing_is_refused(place: SqlPlace, refuse: Refuse, refusal: Refusal) -> None:
    mine = place.ledger(replace(MANAGED, hold=5 if refusal.epoch == 3 else MANAGED.hold))
    mine.write(numbers(0, 10), batch(0, 0, 10))
    assert "It has written no batch of 1 of its" in refuse(refusal)
    assert mine.write(numbers(10, 20), batch(1, 10, 20)) == 10


def test_what_cannot_be_asked_says_why(refuse: Refuse, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(reading.LedgerUnread, match=r"cannot be written with the connection 'orders_db' \("):
        refuse(REFUSAL)  # there is no ledger yet

    def hook(conn_id: str) -> None:
        raise ImportError("apache-airflow-providers-mysql is not installed")

    monkeypatch.setattr(reading, "database_hook", hook)
    with pytest.raises(reading.LedgerUnread, match=r"\(ImportError\)"):
        refuse(REFUSAL)

    def missing(conn_id: str) -> None:
        raise ConnectionUnavailable("There is no connection 'orders_db'.")

    monkeypatch.setattr(reading, "database_hook", missing)
    with pytest.raises(ConnectionUnavailable):
        refuse(REFUSAL)
