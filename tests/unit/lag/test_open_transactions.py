from __future__ import annotations

from kafka import TopicPartition

from airflow_stream_provider.kafka.coordinators import Transaction
from airflow_stream_provider.lag.transactions import Hiding, OpenTransactions

HERE, THERE, GONE = (TopicPartition("t", number) for number in range(3))


def transaction(name: str, age: float, timeout: float, *partitions: TopicPartition) -> Transaction:
    return Transaction(name, 1000.0 - age, timeout, frozenset(partitions))


def test_the_transaction_that_is_furthest_beyond_its_own_timeout_counts() -> None:
    slow, late = transaction("slow", 500.0, 900.0, HERE), transaction("late", 100.0, 60.0, HERE, THERE)
    found = OpenTransactions(1000.0, [slow, late])
    assert found.hiding([HERE, THERE]) == Hiding(100.0, 60.0, "late")
    assert found.hiding([]) == Hiding(0.0)


def test_records_that_no_known_transaction_hides_are_unknown_unless_it_has_just_ended() -> None:
    known = transaction("known", 5.0, 60.0, HERE)
    assert OpenTransactions(1000.0, [known], {GONE}).hiding([HERE, GONE]).seconds == 5.0
    unknown = OpenTransactions(1000.0, [known]).hiding([HERE, GONE])
    assert (unknown.seconds, "partition 2 of the topic t" in unknown.problem) == (None, True)
    assert OpenTransactions(1000.0, [], (), "Broker 2 is away.").hiding([GONE]).problem == "Broker 2 is away."
    late = transaction("late", 100.0, 60.0, HERE)
    assert OpenTransactions(1000.0, [late]).hiding([HERE, GONE]).seconds == 100.0, "what is bad is not hidden"
