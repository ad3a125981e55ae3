"""The ledger on a real Kafka, with drivers that die, freeze and come too late. Rows are collected without Spark."""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer
from pyspark.sql.types import LongType, StringType, StructField, StructType

from airflow_stream_provider.sinks import (
    AnotherWriter,
    BadRows,
    Fenced,
    Gap,
    Overlap,
    SinkError,
    SinkRefused,
    kafka_ledger,
    kafka_topic,
)
from airflow_stream_provider.sinks.kafka import Kafka, kafka
from airflow_stream_provider.sinks.kafka_ledger import KafkaLedger
from airflow_stream_provider.sinks.kafka_topic import LEDGER, Record, check_record_columns
from airflow_stream_provider.sinks.ledger import Target, Writer, is_to_be_written
from devstack.certificates import Certificates
from devstack.drivers import wait_for
from devstack.kafka_cluster import USERS, KafkaCluster
from devstack.kafka_writes import alter_topic, create_topics
from tests.support.kafka_sink import MANAGED, PLAIN, batch, in_hand, numbers, read, values

pytestmark = pytest.mark.system
ROOT = Path(__file__).parents[3]
PARTITIONS = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("kafka")) as found:
        yield found


class Place:
    """A topic and a ledger of this test's own in the module's cluster."""

    def __init__(self, cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.topic = f"t{uuid.uuid4().hex}"
        self.servers = cluster.servers
        self.kafka = kafka("bus", servers=cluster.servers)
        self.made: list[KafkaLedger] = []
        with cluster.client() as client:
            create_topics(client, {self.topic: PARTITIONS})
        monkeypatch.setattr(Kafka, "records", in_hand)

    def ledger(self, writer: Writer = MANAGED, **change: Any) -> Any:  # its frames are lists of records
        self.made.append(self.kafka.ledger(replace(writer, stream=self.topic, **change), Target(self.topic)))
        self.made[-1].claim()
        return self.made[-1]

    def read(self, **how: Any) -> list[Any]:
        return read(self.servers, self.topic, PARTITIONS, **how)

    def committed(self) -> list[int]:
        return values(self.read())

    def everything(self) -> list[int]:
        return values(self.read(all_of_them=True))


@pytest.fixture
def place(cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    found = Place(cluster, monkeypatch)
    yield found
    for each in found.made:
        each.close()


def test_rows_and_offsets_are_written_together(place: Place) -> None:
    mine = place.ledger()
    assert mine.write(numbers(0, 10), batch(0, 0, 10)) == 10
    assert mine.write(numbers(10, 15), batch(1, 10, 15)) == 5
    assert mine.write([], batch(2, 15, 15)) == 0
    assert place.committed() == place.everything() == list(range(15))
    entry = mine.entry()
    assert (entry.query_id, entry.batch_id, entry.offsets, entry.epoch) == ("q1", 2, [{"orders": {"0": 15}}], 1)
    assert not is_to_be_written(entry, mine.id, batch(2, 15, 15))
    assert is_to_be_written(entry, mine.id, batch(3, 15, 20))
    with pytest.raises(Gap, match="5 offsets would never be written"):
        is_to_be_written(entry, mine.id, batch(3, 20, 25))
    with pytest.raises(Overlap, match="5 offsets would be written twice"):
        is_to_be_written(entry, mine.id, batch(3, 10, 20))
    # Somebody who claims nothing sees the same.
    assert place.kafka.ledger(replace(PLAIN, stream=place.topic), Target(place.topic)).known() == entry


def test_records_are_as_the_batch_has_them(place: Place) -> None:
    given = [
        Record(bytearray(b"k"), bytearray(b"v"), [("a", bytearray(b"1")), ("a", bytearray(b""))], 2),
        Record(bytearray(b"k"), None, None, 2),
        Record(None, bytearray(b""), None, 1),
    ]
    place.ledger().write(given, batch(0, 0, 3))
    found = [(each.key, each.value, list(each.headers), each.partition) for each in place.read()]
    assert sorted(found, key=lambda each: each[3]) == [
        (None, b"", [], 1),
        (b"k", b"v", [("a", b"1"), ("a", b"")], 2),
        (b"k", None, [], 2),
    ]


def test_a_driver_of_a_later_hold_fences_the_one_before_at_once(place: Place) -> None:
    old = place.ledger()
    old.write(numbers(0, 10), batch(0, 0, 10))
    new = place.ledger(holder="two.b", hold=5)
    with pytest.raises(Fenced, match=r"two\.b has claimed the ledger of \w+/daily with epoch 2"):
        old.write(numbers(10, 20), batch(1, 10, 20))
    assert new.write(numbers(10, 20), batch(1, 10, 20)) == 10
    with pytest.raises(Fenced):
        place.ledger()  # a driver that held before, and comes late
    producer = new._producer
    assert new.write(numbers(20, 21), batch(2, 20, 21)) == 1
    assert new._producer is producer, "the late one has not disturbed it"
    assert place.committed() == list(range(21))


DRIVER = """
import os, signal, sys
from airflow_stream_provider.sinks import kafka_ledger
from airflow_stream_provider.sinks.kafka import Kafka, kafka
from airflow_stream_provider.sinks.ledger import SinkError, Target, Writer
from tests.support.kafka_sink import batch, in_hand, numbers

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


def driver(place: Place, how: str, *hold: str) -> subprocess.Popen[str]:
    """Start another driver, and wait until it is where it stops."""
    command = [sys.executable, "-c", DRIVER, place.servers, place.topic, how, *hold]
    found = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert found.stdout is not None
    assert found.stdout.readline() == "there\n"
    if how != "stays":
        stat = Path(f"/proc/{found.pid}/stat")
        wait_for("the driver to freeze", lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
    return found


@pytest.mark.parametrize("how", ["in the transaction", "between records"])
def test_a_driver_that_is_frozen_writes_nothing_when_it_wakes(place: Place, how: str) -> None:
    zombie = driver(place, how, "4")
    try:
        before = place.everything()
        new = place.ledger(holder="two.b", hold=5)
        assert new.write(numbers(0, 10), batch(0, 0, 10)) == 10
        zombie.send_signal(signal.SIGCONT)
        said, _ = zombie.communicate(timeout=120)
        assert said.strip() == "Fenced"
        assert new.write(numbers(10, 20), batch(1, 10, 20)) == 10
    finally:
        zombie.kill()
    assert place.committed() == list(range(20))
    assert len(before) >= 5
    assert len(place.everything()) >= 20 + len(before), "who reads what is not committed sees doubles"


def test_a_driver_that_dies_in_its_transaction_leaves_nothing(place: Place) -> None:
    dead = driver(place, "in the transaction", "4")
    dead.kill()
    dead.wait()
    assert place.committed() == []
    assert place.everything() == list(range(10))
    assert place.ledger(holder="two.b", hold=5).write(numbers(0, 10), batch(0, 0, 10)) == 10
    assert place.committed() == list(range(10))
    assert place.everything() == sorted([*range(10), *range(10)])


def test_a_second_plain_job_is_refused_while_the_first_lives(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    first = driver(place, "stays")
    try:
        with monkeypatch.context() as patch:
            patch.setattr(kafka_ledger, "PATIENCE_SECONDS", 1.0)
            with pytest.raises(AnotherWriter, match=r"one\.a on 127\.0\.0\.1 writes \w+/daily"):
                place.ledger(PLAIN)
        taken = place.ledger(PLAIN, holder="a second one", take_over=True)
        assert taken.write(numbers(10, 20), batch(1, 10, 20)) == 10
        taken.close()
    finally:
        first.kill()
        first.wait()
    # The one that closed has left; one that is killed is waited for.
    killed = driver(place, "stays")
    killed.kill()
    killed.wait()
    assert place.ledger(PLAIN, holder="a fourth one").epoch == 4


def test_of_two_plain_jobs_that_start_at_once_one_is_told_so(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    join, first = KafkaLedger._join, list[Any]()

    def after_the_first(self: KafkaLedger) -> str:
        if not first:
            first.append(None)
            first[:] = [place.ledger(PLAIN)]
        return join(self)

    with monkeypatch.context() as patch:
        patch.setattr(KafkaLedger, "_join", after_the_first)
        with pytest.raises(SinkError, match="a plain job has claimed") as found:
            place.ledger(PLAIN, holder="a second one")
    assert not isinstance(found.value, SinkRefused), "the next try says which one lives"
    monkeypatch.setattr(kafka_ledger, "PATIENCE_SECONDS", 1.0)
    with pytest.raises(AnotherWriter, match="a plain job on"):
        place.ledger(PLAIN, holder="a second one")
    assert first[0].write(numbers(0, 10), batch(0, 0, 10)) == 10
    assert place.committed() == list(range(10))


def test_a_plain_job_counts_as_alive_however_long_it_has_no_batch(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(kafka_topic.MEMBER, "session_timeout_ms", 6_000)
    first = place.ledger(PLAIN)
    first.write(numbers(0, 10), batch(0, 0, 10))
    first.entry()
    group, until = first._row["group"], time.monotonic() + 15.0
    with contextlib.closing(place.kafka.admin()) as admin:

        def lives() -> bool:
            assert admin.describe_groups([group])[group]["members"]
            return time.monotonic() > until

        wait_for("two sessions to pass", lives, every=0.5)


def test_a_plain_job_that_was_taken_over_is_fenced(place: Place) -> None:
    first = place.ledger(PLAIN)
    first.write(numbers(0, 10), batch(0, 0, 10))
    place.ledger(PLAIN, holder="a second one", take_over=True)
    with pytest.raises(Fenced, match="a second one"):
        first.write(numbers(10, 20), batch(1, 10, 20))
    assert place.committed() == list(range(10))


@pytest.mark.parametrize("committed", [True, False])
def test_a_commit_whose_answer_is_lost_is_found(place: Place, monkeypatch: pytest.MonkeyPatch, committed: bool) -> None:
    from kafka.errors import KafkaTimeoutError

    mine = place.ledger()
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
    assert place.committed() == list(range(20))
    assert len(place.everything()) == (20 if committed else 30)


def test_no_error_leaves_an_old_row_beside_a_new_producer(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafka.errors import KafkaTimeoutError

    mine = place.ledger()
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
    assert place.committed() == place.everything() == list(range(20))


def test_a_place_in_the_ledger_that_is_not_known_yet_is_waited_for(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.ledger().write(numbers(0, 10), batch(0, 0, 10))
    position, asked = KafkaConsumer.position, itertools.count()

    def late(self: KafkaConsumer, *what: Any) -> int | None:
        return None if next(asked) == 0 else position(self, *what)

    monkeypatch.setattr(KafkaConsumer, "position", late)
    assert place.ledger().entry().offsets == [{"orders": {"0": 10}}]


def test_a_producer_that_another_one_fences_without_a_claim_is_made_anew(place: Place) -> None:
    mine = place.ledger()
    stranger = place.kafka.producer(f"{LEDGER}/{place.topic}/daily")
    stranger.init_transactions()
    assert mine.write(numbers(0, 10), batch(0, 0, 10)) == 10
    stranger.close()
    assert place.committed() == list(range(10))


def test_a_claim_sees_what_is_committed_behind_an_open_transaction_of_another_query(place: Place) -> None:
    mine = place.ledger()
    mine.write(numbers(0, 10), batch(0, 0, 10))
    other = KafkaProducer(bootstrap_servers=place.servers, transactional_id=f"other {place.topic}")
    other.init_transactions()
    other.begin_transaction()
    other.send(LEDGER, key=b"other", value=b"{}", partition=0).get(60)
    mine.write(numbers(10, 20), batch(1, 10, 20))
    new: list[Any] = []
    claiming = threading.Thread(target=lambda: new.append(place.ledger(holder="two.b", hold=5)))
    claiming.start()
    # It has fenced the one before, and now waits.
    wait_for("the new producer", lambda: len(place.made) == 2 and place.made[1]._producer is not None)
    wait_for("the fence", lambda: not _commits(mine))
    assert claiming.is_alive()
    other.abort_transaction()
    claiming.join(120)
    other.close()
    entry = new[0].entry()
    assert (entry.batch_id, entry.offsets) == (1, [{"orders": {"0": 20}}])


def _commits(ledger: KafkaLedger) -> bool:
    """Whether its producer is still the one that may commit."""
    from kafka.errors import KafkaError

    try:
        ledger._producer.begin_transaction()
        ledger._producer.send(ledger._name, b"-1", partition=0).get(60)
        ledger._producer.abort_transaction()
    except KafkaError:
        return False
    return True


def test_a_reader_may_begin_again_at_any_record(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the batches are records of tries that were not committed."""
    from kafka.errors import KafkaTimeoutError

    mine = place.ledger()
    commit = kafka_ledger._commit
    for number in range(4):
        tries = itertools.count()

        def fails_once(producer: Any, tries: Iterator[int] = tries) -> None:
            if next(tries) == 0:
                raise KafkaTimeoutError
            commit(producer)

        monkeypatch.setattr(kafka_ledger, "_commit", fails_once)
        mine.write(numbers(number * 5, number * 5 + 5), batch(number, number * 5, number * 5 + 5))
    committed = place.read()
    assert values(committed) == list(range(20))
    assert place.everything() == sorted([*range(20), *range(20)])
    for stop in committed:
        rest = {(each.partition, each.offset) for each in committed if each.partition == stop.partition}
        rest = {each for each in rest if each[1] >= stop.offset}
        again = place.read(begins={stop.partition: stop.offset})
        assert {(each.partition, each.offset) for each in again if each.partition == stop.partition} == rest


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (Record(b"k", b"v", None, 3), "is for partition 3, and the topic has 3"),
        (Record(), "has neither key nor value"),
        (Record(b"k", b"v", [("a", None)]), "has a header without a name or a value"),
        (Record(b"k", b"v" * (1 << 20)), "has about 1048705 bytes, and it takes 1048576"),
    ],
)
def test_rows_that_do_not_fit_are_refused_with_a_sentence_and_nothing_is_written(
    place: Place, given: Record, says: str
) -> None:
    mine = place.ledger()
    with pytest.raises(BadRows, match=says):
        mine.write([Record(b"k", b"1"), given], batch(0, 0, 2))
    rehearsal: Any = place.kafka.ledger(Writer("", "", "a rehearsal"), Target(place.topic))
    with pytest.raises(BadRows, match=says):
        rehearsal.rehearse([given])
    assert place.everything() == []
    assert mine.entry().query_id == ""
    assert mine.write(numbers(0, 1), batch(0, 0, 1)) == 1


def test_what_a_broker_does_not_take_is_refused_and_not_tried_again(place: Place) -> None:
    mine = place.ledger()
    mine._topic = replace(mine._topic, largest=1 << 30)
    place.kafka._settings["max_request_size"] = 1 << 30  # type: ignore[index]
    mine._drop()
    mine.entry()
    mine._topic = replace(mine._topic, largest=1 << 30)
    with pytest.raises(BadRows, match="does not take a row for the topic"):
        mine.write([Record(b"k", b"1"), Record(b"k", b"v" * (2 << 20))], batch(0, 0, 2))
    assert place.committed() == []
    assert mine.entry().query_id == ""
    assert mine.write(numbers(0, 1), batch(0, 0, 1)) == 1


def test_a_topic_of_small_messages_gets_small_batches(place: Place, cluster: KafkaCluster) -> None:
    with cluster.client() as client:
        alter_topic(client, place.topic, {"max.message.bytes": "30000"})
    mine = place.ledger()
    rows = [Record(None, b"%0500d" % number, None, 0) for number in range(1000)]
    assert mine.write(rows, batch(0, 0, 1000)) == 1000
    assert mine._producer.config["batch_size"] == 30000
    assert place.committed() == place.everything() == list(range(1000))


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"value": StringType(), "id": LongType()}, "it has a column id"),
        ({"value": LongType()}, "value is bigint"),
        ({"key": StringType()}, "it has no column value"),
    ],
)
def test_columns_that_no_record_has_are_refused(columns: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRows, match=says):
        check_record_columns(StructType([StructField(name, kind) for name, kind in columns.items()]))


@pytest.mark.parametrize("argument", [{"key": ("id",)}, {"delete": "gone"}, {"create": True}])
def test_arguments_that_no_topic_has_are_refused(argument: dict[str, Any]) -> None:
    with pytest.raises(SinkRefused, match=f"A topic has no argument '{next(iter(argument))}'"):
        kafka("bus", servers="x:1").ledger(PLAIN, Target("orders", **argument))


def test_a_topic_that_is_missing_is_said_before_the_claim_and_is_not_made(place: Place, cluster: KafkaCluster) -> None:
    place.topic = "nowhere"
    with pytest.raises(BadRows, match="There is no topic nowhere"):
        place.ledger()
    with cluster.client() as client:
        assert client.topics(["nowhere"]) == {}


def test_a_ledger_that_kafka_would_forget_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with KafkaCluster(tmp_path / "kafka") as cluster:
        place = Place(cluster, monkeypatch)
        with cluster.client() as client:
            create_topics(client, {LEDGER: 1})
        with pytest.raises(SinkRefused, match="The topic stream_ledger is not compacted"):
            place.ledger()


def test_a_cluster_that_is_away_is_said_without_its_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = {"bootstrap_servers": "127.0.0.1:1", "bootstrap_timeout_ms": 500, "security_protocol": "SASL_PLAINTEXT"}
    settings |= {"sasl_mechanism": "PLAIN", "sasl_plain_username": "somebody", "sasl_plain_password": "hunter2"}
    (tmp_path / "bus").write_text(json.dumps(settings))
    monkeypatch.setenv("STREAM_SINK_BUS_FILE", str(tmp_path / "bus"))
    away = kafka("bus")
    with pytest.raises(SinkError) as found:
        away.ledger(PLAIN, Target("orders")).claim()
    assert "bus cannot be reached" in str(found.value)
    assert "127.0.0.1" not in str(found.value)
    assert "hunter2" not in f"{found.value}{away}{away._settings}"


def test_a_user_with_the_rights_that_the_page_names_writes_over_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafka.admin import ACL, ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType

    certificates = Certificates(tmp_path)
    with KafkaCluster(tmp_path / "kafka", secure=certificates) as cluster:
        place = Place(cluster, monkeypatch)
        settings = {"bootstrap_servers": cluster.at("SASL_SSL"), "security_protocol": "SASL_SSL"}
        settings |= {"sasl_mechanism": "PLAIN", "ssl_cafile": str(certificates.authority)}
        settings |= {"sasl_plain_username": "streams", "sasl_plain_password": USERS["streams"]}
        monkeypatch.setenv("STREAM_SINK_BUS", json.dumps(settings))
        place.kafka = kafka("bus")
        with pytest.raises(SinkError) as found:
            place.ledger()
        assert USERS["streams"] not in str(found.value)
        rights = {
            (ResourceType.TOPIC, LEDGER): "CREATE READ WRITE DESCRIBE DESCRIBE_CONFIGS",
            (ResourceType.GROUP, LEDGER): "READ DESCRIBE",
            (ResourceType.TRANSACTIONAL_ID, LEDGER): "WRITE DESCRIBE",
            (ResourceType.TOPIC, place.topic): "WRITE DESCRIBE DESCRIBE_CONFIGS",
        }
        allow = ACLPermissionType.ALLOW
        with cluster.client() as client:
            for (kind, name), operations in rights.items():
                rule = ResourcePattern(kind, name, ACLResourcePatternType.PREFIXED)
                for operation in operations.split():
                    client._admin.create_acls([ACL("User:streams", "*", ACLOperation[operation], allow, rule)])

        def claimed() -> bool:
            with contextlib.suppress(SinkError):
                return bool(place.ledger(PLAIN))
            return False

        wait_for("the broker to know the rights", claimed, 120)
        mine: Any = place.made[-1]
        assert mine.write(numbers(0, 10), batch(0, 0, 10)) == 10
        mine.close()
        place.ledger(PLAIN, holder="a second one")
        assert place.committed() == list(range(10))
