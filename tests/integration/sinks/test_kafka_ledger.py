"""The ledger on a real Kafka, with drivers that die, freeze and come too late. Rows are collected without Spark."""

from __future__ import annotations

import contextlib
import itertools
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError

from airflow_stream_provider.sinks import (
    AnotherWriter,
    Fenced,
    Gap,
    Overlap,
    SinkError,
    SinkRefused,
    kafka_ledger,
    kafka_topic,
)
from airflow_stream_provider.sinks.kafka_ledger import KafkaLedger
from airflow_stream_provider.sinks.kafka_topic import LEDGER, Record
from airflow_stream_provider.sinks.ledger import Target, is_to_be_written
from devstack.drivers import wait_for
from devstack.kafka_writes import alter_topic
from tests.support.kafka_sink import Bus, numbers, values
from tests.support.ledgers import PLAIN, batch, wait_until_frozen

pytestmark = pytest.mark.system
ROOT = Path(__file__).parents[3]


def test_rows_and_offsets_are_written_together(bus: Bus) -> None:
    mine = bus.ledger()
    assert mine.write(numbers(0, 10), batch(0, 0, 10)) == 10
    assert mine.write(numbers(10, 15), batch(1, 10, 15)) == 5
    assert mine.write([], batch(2, 15, 15)) == 0
    assert bus.committed() == bus.everything() == list(range(15))
    entry = mine.entry()
    assert (entry.query_id, entry.batch_id, entry.offsets, entry.epoch) == ("q1", 2, [{"orders": {"0": 15}}], 1)
    assert not is_to_be_written(entry, mine.id, batch(2, 15, 15))
    assert is_to_be_written(entry, mine.id, batch(3, 15, 20))
    with pytest.raises(Gap, match="5 offsets would never be written"):
        is_to_be_written(entry, mine.id, batch(3, 20, 25))
    with pytest.raises(Overlap, match="5 offsets would be written twice"):
        is_to_be_written(entry, mine.id, batch(3, 10, 20))
    # Somebody who claims nothing sees the same.
    assert bus.kafka.ledger(replace(PLAIN, stream=bus.topic), Target(bus.topic)).known() == entry


def test_records_are_as_the_batch_has_them(bus: Bus) -> None:
    given = [
        Record(bytearray(b"k"), bytearray(b"v"), [("a", bytearray(b"1")), ("a", bytearray(b""))], 2),
        Record(bytearray(b"k"), None, None, 2),
        Record(None, bytearray(b""), None, 1),
    ]
    bus.ledger().write(given, batch(0, 0, 3))
    found = [(each.key, each.value, list(each.headers), each.partition) for each in bus.read()]
    assert sorted(found, key=lambda each: each[3]) == [
        (None, b"", [], 1),
        (b"k", b"v", [("a", b"1"), ("a", b"")], 2),
        (b"k", None, [], 2),
    ]


def test_a_driver_of_a_later_hold_fences_the_one_before_at_once(bus: Bus) -> None:
    old = bus.ledger()
    old.write(numbers(0, 10), batch(0, 0, 10))
    new = bus.ledger(holder="two.b", hold=5)
    with pytest.raises(Fenced, match=r"two\.b has claimed the ledger of \w+/daily with epoch 2"):
        old.write(numbers(10, 20), batch(1, 10, 20))
    assert new.write(numbers(10, 20), batch(1, 10, 20)) == 10
    with pytest.raises(Fenced):
        bus.ledger()  # a driver that held before, and comes late
    producer = new._producer
    assert new.write(numbers(20, 21), batch(2, 20, 21)) == 1
    assert new._producer is producer, "the late one has not disturbed it"
    assert bus.committed() == list(range(21))


DRIVER = """
import os, signal, sys
from airflow_stream_provider.sinks import kafka_ledger
from airflow_stream_provider.sinks.kafka import Kafka, kafka
from airflow_stream_provider.sinks.ledger import SinkError, Target, Writer
from tests.support.kafka_sink import in_hand, numbers
from tests.support.ledgers import batch

servers, topic, how, *hold = sys.argv[1:]
Kafka.records = in_hand
mine = kafka("bus", servers=servers).ledger(
    Writer(topic, "daily", "one.a", control="log" if hold else "", hold=int(hold[0]) if hold else 0), Target(topic)
)
mine.claim()
commit = kafka_ledger._commit
if how == "in the transaction":
    def freeze(producer):
        print("there", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
        commit(producer)
    kafka_ledger._commit = freeze
rows = numbers(0, 10)
if how == "between records":
    class Rows(list):
        def __iter__(self):
            yield from rows[:5]
            mine._producer.flush()
            print("there", flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)
            yield from rows[5:]
    mine._topic = None
    rows = Rows(rows)
if how == "stays":
    mine.write(rows, batch(0, 0, 10))
    print("there", flush=True)
    signal.pause()
try:
    print(mine.write(rows, batch(0, 0, 10)))
except SinkError as error:
    print(type(error).__name__)
"""


def driver(bus: Bus, how: str, *hold: str) -> subprocess.Popen[str]:
    """Start another driver, and wait until it is where it stops."""
    command = [sys.executable, "-c", DRIVER, bus.servers, bus.topic, how, *hold]
    found = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert found.stdout is not None
    assert found.stdout.readline() == "there\n"
    if how != "stays":
        wait_until_frozen(found)
    return found


@pytest.mark.parametrize("how", ["in the transaction", "between records"])
def test_a_driver_that_is_frozen_writes_nothing_when_it_wakes(bus: Bus, how: str) -> None:
    zombie = driver(bus, how, "4")
    try:
        before = bus.everything()
        new = bus.ledger(holder="two.b", hold=5)
        assert new.write(numbers(0, 10), batch(0, 0, 10)) == 10
        zombie.send_signal(signal.SIGCONT)
        said, _ = zombie.communicate(timeout=120)
        assert said.strip() == "Fenced"
        assert new.write(numbers(10, 20), batch(1, 10, 20)) == 10
    finally:
        zombie.kill()
    assert bus.committed() == list(range(20))
    assert len(before) >= 5
    assert len(bus.everything()) >= 20 + len(before), "who reads what is not committed sees doubles"


def test_a_driver_that_dies_in_its_transaction_leaves_nothing(bus: Bus) -> None:
    dead = driver(bus, "in the transaction", "4")
    dead.kill()
    dead.wait()
    assert bus.committed() == []
    assert bus.everything() == list(range(10))
    assert bus.ledger(holder="two.b", hold=5).write(numbers(0, 10), batch(0, 0, 10)) == 10
    assert bus.committed() == list(range(10))
    assert bus.everything() == sorted([*range(10), *range(10)])


def test_a_second_plain_job_is_refused_while_the_first_lives(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    first = driver(bus, "stays")
    try:
        with monkeypatch.context() as patch:
            patch.setattr(kafka_ledger, "PATIENCE_SECONDS", 1.0)
            with pytest.raises(AnotherWriter, match=r"one\.a on 127\.0\.0\.1 writes \w+/daily"):
                bus.ledger(PLAIN)
        taken = bus.ledger(PLAIN, holder="a second one", take_over=True)
        assert taken.write(numbers(10, 20), batch(1, 10, 20)) == 10
        taken.close()
    finally:
        first.kill()
        first.wait()
    # The one that closed has left; one that is killed is waited for.
    killed = driver(bus, "stays")
    killed.kill()
    killed.wait()
    assert bus.ledger(PLAIN, holder="a fourth one").epoch == 4


def test_of_two_plain_jobs_that_start_at_once_one_is_told_so(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    join, first = KafkaLedger._join, list[Any]()

    def after_the_first(self: KafkaLedger) -> str:
        if not first:
            first.append(None)
            first[:] = [bus.ledger(PLAIN)]
        return join(self)

    with monkeypatch.context() as patch:
        patch.setattr(KafkaLedger, "_join", after_the_first)
        with pytest.raises(SinkError, match="a plain job has claimed") as found:
            bus.ledger(PLAIN, holder="a second one")
    assert not isinstance(found.value, SinkRefused), "the next try says which one lives"
    monkeypatch.setattr(kafka_ledger, "PATIENCE_SECONDS", 1.0)
    with pytest.raises(AnotherWriter, match="a plain job on"):
        bus.ledger(PLAIN, holder="a second one")
    assert first[0].write(numbers(0, 10), batch(0, 0, 10)) == 10
    assert bus.committed() == list(range(10))


def test_a_plain_job_counts_as_alive_however_long_it_has_no_batch(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(kafka_topic.MEMBER, "session_timeout_ms", 6_000)
    first = bus.ledger(PLAIN)
    first.write(numbers(0, 10), batch(0, 0, 10))
    first.entry()
    group, until = first._row["group"], time.monotonic() + 15.0
    with contextlib.closing(bus.kafka.admin()) as admin:

        def lives() -> bool:
            assert admin.describe_groups([group])[group]["members"]
            return time.monotonic() > until

        wait_for("two sessions to pass", lives, every=0.5)


def test_a_plain_job_that_was_taken_over_is_fenced(bus: Bus) -> None:
    first = bus.ledger(PLAIN)
    first.write(numbers(0, 10), batch(0, 0, 10))
    bus.ledger(PLAIN, holder="a second one", take_over=True)
    with pytest.raises(Fenced, match="a second one"):
        first.write(numbers(10, 20), batch(1, 10, 20))
    assert bus.committed() == list(range(10))


@pytest.mark.parametrize("committed", [True, False])
def test_a_commit_whose_answer_is_lost_is_found(bus: Bus, monkeypatch: pytest.MonkeyPatch, committed: bool) -> None:
    mine = bus.ledger()
    tries = itertools.count()
    commit = kafka_ledger._commit

    def lost(producer: Any) -> None:
        first = next(tries) == 0
        if committed or not first:
            commit(producer)
        if first:
            raise KafkaTimeoutError

    monkeypatch.setattr(kafka_ledger, "_commit", lost)
    assert mine.write(numbers(0, 10), batch(0, 0, 10)) == 10
    assert mine.write(numbers(10, 20), batch(1, 10, 20)) == 10
    assert bus.committed() == list(range(20))
    assert len(bus.everything()) == (20 if committed else 30)


def test_no_error_leaves_an_old_row_beside_a_new_producer(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = bus.ledger()
    commit, read_row = kafka_ledger._commit, KafkaLedger._read

    def lost(producer: Any) -> None:
        commit(producer)
        raise KafkaTimeoutError

    def breaks(self: KafkaLedger, admin: Any, settled: bool = True) -> Any:
        if settled:
            raise RuntimeError("the IO thread has ended")
        return read_row(self, admin, settled)

    with monkeypatch.context() as patch:
        patch.setattr(kafka_ledger, "_commit", lost)
        patch.setattr(KafkaLedger, "_read", breaks)
        with pytest.raises(RuntimeError):
            mine.write(numbers(0, 10), batch(0, 0, 10))
    assert not is_to_be_written(mine.entry(), mine.id, batch(0, 0, 10))
    assert mine.write(numbers(10, 20), batch(1, 10, 20)) == 10
    assert bus.committed() == bus.everything() == list(range(20))


def test_a_place_in_the_ledger_that_is_not_known_yet_is_waited_for(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    bus.ledger().write(numbers(0, 10), batch(0, 0, 10))
    position, asked = KafkaConsumer.position, itertools.count()

    def late(self: KafkaConsumer, *what: Any) -> int | None:
        return None if next(asked) == 0 else position(self, *what)

    monkeypatch.setattr(KafkaConsumer, "position", late)
    assert bus.ledger().entry().offsets == [{"orders": {"0": 10}}]


def test_a_producer_that_another_one_fences_without_a_claim_is_made_anew(bus: Bus) -> None:
    mine = bus.ledger()
    stranger = bus.kafka.producer(f"{LEDGER}/{bus.topic}/daily")
    stranger.init_transactions()
    assert mine.write(numbers(0, 10), batch(0, 0, 10)) == 10
    stranger.close()
    assert bus.committed() == list(range(10))


def test_a_claim_sees_what_is_committed_behind_an_open_transaction_of_another_query(bus: Bus) -> None:
    mine = bus.ledger()
    mine.write(numbers(0, 10), batch(0, 0, 10))
    other = KafkaProducer(bootstrap_servers=bus.servers, transactional_id=f"other {bus.topic}")
    other.init_transactions()
    other.begin_transaction()
    other.send(LEDGER, key=b"other", value=b"{}", partition=0).get(60)
    mine.write(numbers(10, 20), batch(1, 10, 20))
    new: list[Any] = []
    claiming = threading.Thread(target=lambda: new.append(bus.ledger(holder="two.b", hold=5)))
    claiming.start()
    # It has fenced the one before, and now waits.
    wait_for("the new producer", lambda: len(bus.made) == 2 and bus.made[1]._producer is not None)
    wait_for("the fence", lambda: not _commits(mine))
    assert claiming.is_alive()
    other.abort_transaction()
    claiming.join(120)
    other.close()
    entry = new[0].entry()
    assert (entry.batch_id, entry.offsets) == (1, [{"orders": {"0": 20}}])


def _commits(ledger: KafkaLedger) -> bool:
    """Whether its producer is still the one that may commit."""
    try:
        ledger._producer.begin_transaction()
        ledger._producer.send(ledger._name, b"-1", partition=0).get(60)
        ledger._producer.abort_transaction()
    except KafkaError:
        return False
    return True


def test_a_reader_may_begin_again_at_any_record(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the batches are records of tries that were not committed."""
    mine = bus.ledger()
    commit = kafka_ledger._commit
    for number in range(4):
        tries = itertools.count()

        def fails_once(producer: Any, tries: Iterator[int] = tries) -> None:
            if next(tries) == 0:
                raise KafkaTimeoutError
            commit(producer)

        monkeypatch.setattr(kafka_ledger, "_commit", fails_once)
        mine.write(numbers(number * 5, number * 5 + 5), batch(number, number * 5, number * 5 + 5))
    committed = bus.read()
    assert values(committed) == list(range(20))
    assert bus.everything() == sorted([*range(20), *range(20)])
    for stop in committed:
        rest = {(each.partition, each.offset) for each in committed if each.partition == stop.partition}
        rest = {each for each in rest if each[1] >= stop.offset}
        again = bus.read(begins={stop.partition: stop.offset})
        assert {(each.partition, each.offset) for each in again if each.partition == stop.partition} == rest


def test_a_topic_of_small_messages_gets_small_batches(bus: Bus) -> None:
    with bus.cluster.client() as client:
        alter_topic(client, bus.topic, {"max.message.bytes": "30000"})
    mine = bus.ledger()
    rows = [Record(None, b"%0500d" % number, None, 0) for number in range(1000)]
    assert mine.write(rows, batch(0, 0, 1000)) == 1000
    assert mine._producer.config["batch_size"] == 30000
    assert bus.committed() == bus.everything() == list(range(1000))
