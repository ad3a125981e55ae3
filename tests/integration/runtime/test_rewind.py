"""Real drivers on a real broker read records again: each exactly once more, and only once, whoever dies meanwhile."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from airflow_stream_provider.checkpoint import boundary, read
from airflow_stream_provider.checkpoint.files import Place
from airflow_stream_provider.checkpoint.logs import LogEnds, kafka_offsets, read_offsets
from airflow_stream_provider.lifecycle.rewind import WantedRewind
from devstack.drivers import HandRunStream, SubmittedDriver, wait_for
from devstack.jars import fetch
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import create_topics
from devstack.places import Storage, open_storage

APP = Path(__file__).parents[2] / "support" / "app_lines_kafka.py"
PARTITIONS = 2
# In each partition; number N of all orders is in partition N % 2, at offset N // 2.
BACK = {0: 30, 1: 50}
WANTED = WantedRewind(1764000000.0, {"lines": {"orders": BACK}})


class Orders:
    """What was sent to the topic, and what came out of the query `lines`."""

    def __init__(self, servers: str, root: Path) -> None:
        self.servers, self.root, self.sent = servers, root, 0

    def send(self, count: int) -> None:
        producer = KafkaProducer(bootstrap_servers=self.servers)
        numbers = range(self.sent, self.sent + count)
        sent = [producer.send("orders", str(number).encode(), partition=number % PARTITIONS) for number in numbers]
        for each in sent:
            each.get(60)
        producer.close()
        self.sent += count

    def delete_until(self, partition: int, offset: int) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.servers)
        admin.delete_records({TopicPartition("orders", partition): offset})
        admin.close()

    def delivered(self) -> Counter[int]:
        """How often each order is in the sink, as Spark reads it: in the files that the sink's log names."""
        lines = (line for batch in self._log() for line in batch.read_text().split("\n")[1:] if line)
        files = {json.loads(line)["path"].removeprefix("file://") for line in lines}  # a compacted log names them again
        return Counter(int(json.loads(line)["id"]) for file in files for line in Path(file).read_text().splitlines())

    def batches(self) -> list[int]:
        """The numbers of the batches that the sink has got."""
        return sorted(int(path.name.partition(".")[0]) for path in self._log())

    def _log(self) -> list[Path]:
        log = self.root / "lines" / "_spark_metadata"
        return [path for path in log.iterdir() if not path.name.startswith(".")] if log.exists() else []

    def wait_for(self, wanted: Counter[int]) -> None:
        wait_for("all of them in the sink", lambda: self.delivered() == wanted)


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[Orders]:
    with KafkaCluster(tmp_path / "kafka") as brokers:
        with brokers.client() as client:
            create_topics(client, {"orders": PARTITIONS})
        yield Orders(brokers.servers, tmp_path / "data")


def die(stream: HandRunStream, driver: SubmittedDriver, incarnation: str) -> None:
    """Kill a driver, and let the log say so."""
    driver.signal(signal.SIGKILL)
    driver.popen.wait(60)
    stream.append("fenced", incarnation=incarnation, reason="test", evidence={"cluster": "test"})


def another_standby(stream: HandRunStream, deployment: str) -> str:
    def found() -> str | None:
        return next((i.id for i in stream.state.standbys() if i.deployment == deployment), None)

    return str(wait_for("another standby", found))


def read_again(counted: Counter[int]) -> Counter[int]:
    """What the sink has once all from BACK on was read again."""
    return counted + Counter(n for n in counted if n // PARTITIONS >= BACK[n % PARTITIONS])


@pytest.mark.system
def test_every_record_since_then_comes_exactly_once_more_and_none_twice_more(
    stream: HandRunStream, orders: Orders
) -> None:
    orders.send(200)
    checkpoints = str(orders.root / "checkpoints")
    stream.deploy("orders-1", APP, orders.servers, str(orders.root), checkpoints)
    one = stream.standby("orders-1")
    stream.hand_over(one)
    once = Counter(range(200))
    orders.wait_for(once)
    before = orders.batches()

    # A query with state is refused before anything is touched.
    counts = WantedRewind(WANTED.to, {"counts": {"orders": BACK}})
    stream.deploy("orders-2", APP, orders.servers, str(orders.root), checkpoints, rewind=counts)
    wait_for("the refusal", lambda: stream.state.deployments["orders-2"].ended)
    assert "the query keeps state" in stream.state.deployments["orders-2"].reason
    assert stream.state.holder == one

    driver = stream.deploy("orders-3", APP, orders.servers, str(orders.root), checkpoints, rewind=WANTED)
    three = stream.standby("orders-3")
    assert orders.delivered() == once, "a standby reads nothing again"
    stream.hand_over(three)
    twice = read_again(once)
    orders.wait_for(twice)
    assert orders.batches()[: len(before)] == before
    assert orders.batches() == list(range(len(orders.batches()))), "no number is missing, which the file sink needs"

    # Another driver of the same deployment takes over, as of one that was relaunched.
    die(stream, driver, three)
    stream.launch("orders-3", APP.name, orders.servers, str(orders.root), checkpoints)
    again = another_standby(stream, "orders-3")
    stream.hand_over(again)
    orders.send(20)
    orders.wait_for(twice + Counter(range(200, 220)))
    # And the release before, which was warm all the time.
    stream.hand_over(one)
    orders.send(20)
    orders.wait_for(twice + Counter(range(200, 240)))
    assert orders.batches() == list(range(len(orders.batches())))
    assert [record["incarnation"] for record in stream.records("acquired")] == [one, three, again, one]

    # Kafka deletes some of it, after somebody has looked and before the driver holds.
    stream.deploy("orders-4", APP, orders.servers, str(orders.root), checkpoints, rewind=WANTED)
    four = stream.standby("orders-4")
    orders.delete_until(0, 60)
    stream.request(four)
    wait_for("the driver to give up", lambda: stream.state.deployments["orders-4"].ended)
    reason = stream.state.deployments["orders-4"].reason
    assert "Kafka has deleted what lines is to read again: orders-0 begins at offset 60 by now" in reason
    assert orders.delivered() == twice + Counter(range(200, 240))
    assert read(orders.root / "checkpoints" / "lines").committed == {"orders": {0: 120, 1: 120}}


@pytest.mark.system
@pytest.mark.parametrize(
    ("storage", "dies", "replaced", "by"),
    [
        ("file", "--dies-first", 0, "another driver of it"),
        ("file", "--dies", 1, "the release before"),
        ("file", "--dies-after", 2, "another driver of it"),
        ("hdfs", "--dies", 1, "another driver of it"),
        ("moto", "--dies", 1, "another driver of it"),
    ],
)
def test_what_a_driver_that_is_killed_has_left_of_it_is_done_once_by_whoever_holds_next(
    stream: HandRunStream, orders: Orders, tmp_path: Path, storage: str, dies: str, replaced: int, by: str
) -> None:
    with open_storage(storage, tmp_path / "storage") as place:
        stream.spark_conf.update({f"spark.hadoop.{name}": value for name, value in place.core_site.items()})
        if place.libraries:
            stream.spark_conf["spark.driver.extraClassPath"] = ":".join(f"{fetch(each)}/*" for each in place.libraries)
        try:
            _is_done_once(stream, orders, place, dies, replaced, by)
        finally:
            stream.stop_all()


def _is_done_once(stream: HandRunStream, orders: Orders, place: Storage, dies: str, replaced: int, by: str) -> None:
    arguments = orders.servers, str(orders.root), place.checkpoints
    orders.send(100)
    stream.deploy("orders-1", APP, *arguments)
    one = stream.standby("orders-1")
    stream.hand_over(one)
    once = Counter(range(100))
    orders.wait_for(once)

    back = WantedRewind(WANTED.to, {"lines": {"orders": {0: 10, 1: 10}}})
    driver = stream.deploy("orders-2", APP, *arguments, dies, rewind=back)
    two = stream.standby("orders-2")
    stream.request(two)
    driver.exit_code()
    batch = stream.records("released")[-1]["ends"]["lines"]["batch"]
    assert (stream.state.holder, orders.delivered()) == (two, once)
    if place.folder is not None:
        lines = place.folder / "checkpoints" / "lines"
        assert boundary(lines) == LogEnds(batch, batch)
        found = [offsets_of(lines, batch - each) for each in range(2)]
        assert [{"orders": {0: 10, 1: 10}} in each for each in found] == [replaced == 2, replaced >= 1]

    die(stream, driver, two)

    def takes_over(deployment: str) -> tuple[SubmittedDriver, str]:
        if deployment == "orders-1":
            return stream.drivers[0], one
        return stream.launch("orders-2", APP.name, *arguments), another_standby(stream, "orders-2")

    driver, after = takes_over("orders-1" if by == "the release before" else "orders-2")
    stream.hand_over(after)
    twice = once + Counter(range(20, 100))
    orders.wait_for(twice)
    beat = stream.log.heartbeat(after)
    assert beat is not None
    goes_back = f"lines goes back after batch {batch}, and reads 80 records again."
    said = "No query had to go back any more." if replaced == 2 else goes_back
    assert (beat.rewind, beat.rewind_undone) == (said, False)

    # And nobody does it once more when batches have run since.
    die(stream, driver, after)
    _, later = takes_over("orders-2" if by == "the release before" else "orders-1")
    stream.hand_over(later)
    orders.send(20)
    orders.wait_for(twice + Counter(range(100, 120)))
    assert orders.batches() == list(range(len(orders.batches())))


def offsets_of(checkpoint: Place, batch: int) -> list[object]:
    return [kafka_offsets(text) for text in read_offsets(checkpoint / "offsets" / str(batch)).sources.values()]
