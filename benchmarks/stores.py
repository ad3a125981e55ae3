"""What a control log costs in a folder and in a Kafka topic; and what a watch costs that looks at many topics.

    python -m benchmarks.stores [--rounds 200] [--topics 10 100 1000]

`append` is one record until it is acknowledged and read back; `notice` is the look of another reader that finds it;
`beat` is one heartbeat, which in a topic also reads all that was written before it. Both sides take turns in one run,
on one disk: the folder on this machine's, the topic on one broker of this machine, with one replica.

Then so many topics, each with the log of a stream's first four deployments, its saved state, and the heartbeats of
two drivers from the last minute. `look` is a client of its own that checks all topics, opens each log and reads its
state and its heartbeats. `cores` are those of the process at one look a minute; the broker's are measured with and
without heartbeats, two a second and topic.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import psutil
from kafka import KafkaProducer

from airflow_stream_provider.control import ControlLog, make_root, open_log
from airflow_stream_provider.control.topic import READ_BYTES, Fetched, Message
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.kafka import control_topic_setup as topic_setup
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.control_topic import KafkaTopic
from airflow_stream_provider.kafka.control_topic_rules import SETTINGS
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.saved_state import dump
from airflow_stream_provider.lifecycle.state import StreamState
from benchmarks.open_log import life
from benchmarks.results import machine, show, spread, write
from devstack.kafka_cluster import KafkaCluster

HEAP = "1g"
PERIOD = 60.0
# Those of the first four deployments; the fourth holds.
RECORDS, BEATS = 29, 60
DRIVERS = ("orders-2-1-4-00000004.0000000a", "orders-2-1-3-00000003.0000000a")
BEAT_SECONDS = 20
ENDS = {"orders": {str(partition): 1_000_000 + partition for partition in range(12)}}
BEAT = Heartbeat(
    phase="running",
    queries=tuple(QueryProgress(name, f"/data/checkpoints/{name}", "kafka", "a" * 36, 7, 1.5, 200, 133.0, "", (ENDS,))
                  for name in ("enrich", "totals")),
    host="worker-1",
    executor_hosts=("worker-1", "worker-2"),
)  # fmt: skip


def taken(call: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def alternating(logs: Mapping[str, tuple[ControlLog, ControlLog]], rounds: int) -> dict[str, dict[str, Any]]:
    """Let both sides append, notice and beat in turns, and return what each took.

    :param logs: by side, the log of a writer and that of another reader.
    """
    found: dict[str, list[float]] = {f"{what}, {side}": [] for what in ("append", "notice", "beat") for side in logs}
    for number, record in enumerate(islice(life(), rounds)):
        for side, (log, reader) in logs.items():
            seq = log.refresh().seq
            found[f"append, {side}"].append(taken(partial(log.append, record, seq)))
            found[f"notice, {side}"].append(taken(reader.refresh))
            if reader.state.seq != seq + 1:
                raise SystemExit(f"the reader of {side} did not find record {seq + 1}")
            beat = replace(BEAT, counter=number)
            found[f"beat, {side}"].append(taken(partial(log.beat, DRIVERS[0], beat)))
    return {side: spread(seconds) for side, seconds in found.items()}


class Recorder:
    """Notes what a store writes to a topic, so that it can be sent to many at once; implements `Topic`."""

    name = "a topic to be"

    def __init__(self, topic_id: str) -> None:
        self._id = topic_id
        self.messages: list[Message] = []

    def topic_id(self) -> str:
        """Return the id of the topic that the messages are for."""
        return self._id

    def write(self, key: bytes, value: bytes | None, headers: Mapping[str, bytes]) -> int:
        """Note a message."""
        self.messages.append(Message(len(self.messages), key, value, dict(headers)))
        return len(self.messages) - 1

    def read(self, offset: int, size: int = READ_BYTES) -> Fetched:
        """Return what was noted."""
        return Fetched(tuple(self.messages[offset:]), len(self.messages), len(self.messages))

    def check_same(self) -> None:
        """Nothing to do."""


def stream(topic_id: str, beats: int = BEATS) -> list[Message]:
    """Return the messages of a stream's topic; `beats`: of each driver."""
    topic = Recorder(topic_id)
    store = TopicStore(topic, "orders")
    state = StreamState()
    for seq, record in enumerate(islice(life(), RECORDS), start=1):
        written = record.numbered(seq, state.nonce)
        store.create(seq, written.to_json())
        state = fold([written], state)
        if seq == RECORDS - 5:
            store.put_saved_state(dump(state))
    for number in range(beats):
        for driver in DRIVERS:
            store.put_heartbeat(driver, replace(BEAT, counter=number, seq=state.seq).to_json())
    return topic.messages


def make_topics(client: KafkaClient, producer: KafkaProducer, names: Sequence[str], beats: int = BEATS) -> None:
    """Make topics, and fill each; `beats`: of each driver."""
    settings = {**SETTINGS, "min.insync.replicas": "1"}
    for first in range(0, len(names), 100):
        sent = []
        some = names[first : first + 100]
        wanted = {name: {"num_partitions": 1, "replication_factor": 1, "configs": settings} for name in some}
        client._admin.create_topics(wanted, wait_for_metadata=True)
        for name, described in client.topics(some).items():
            for each in stream(described["topic_id"].hex, beats):
                sent.append(send(producer, name, each))
        for future in sent:
            future.get(60)


def send(producer: KafkaProducer, topic: str, message: Message) -> Any:
    """Send a message as a store would, and return its future."""
    return producer.send(topic, message.value, message.key, headers=list(message.headers.items()), partition=0)


def look(servers: Mapping[str, Any], names: Sequence[str]) -> dict[str, float]:
    """Look at all topics once, as a watch does in a task of its own, and return what that took."""
    before, began = _cpu(), time.perf_counter()
    received = 0
    with KafkaClient("bench", servers) as client:
        read = client.read

        def counted(*arguments: Any, **options: Any) -> Any:
            nonlocal received
            answers = read(*arguments, **options)
            received += sum(_size(message) for each in answers.values() for message in each.messages)
            return answers

        client.read = counted  # type: ignore[method-assign]  # to count what is received
        problems = topic_setup.problems(client, names)
        if problems:
            raise SystemExit(f"a topic is not as it must be: {next(iter(problems.values()))}")
        ids = {name: described["topic_id"] for name, described in client.topics(names).items()}
        for name in names:
            log = ControlLog(
                TopicStore(KafkaTopic(lambda: client, client.conn_id, name, ids[name]), "orders"), "orders"
            )
            if log.refresh().seq != RECORDS or len(log.heartbeats()) != len(DRIVERS):
                raise SystemExit(f"{name} was not read rightly: {log.state.seq} records")
    return {"seconds": time.perf_counter() - began, "cpu": _cpu() - before, "bytes": float(received)}


def _size(message: Message) -> int:
    return len(message.key or b"") + len(message.value or b"") + sum(map(len, message.headers.values()))


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def beats(producer: KafkaProducer, names: Sequence[str], messages: Mapping[str, Sequence[Message]]) -> Iterator[float]:
    """Send two heartbeats a second to each topic; yield how late each second's were acknowledged."""
    for second in range(BEAT_SECONDS):
        due = time.monotonic() + 1.0
        for name in names:
            for message in messages[name][-len(DRIVERS) :]:
                send(producer, name, message)
        producer.flush()
        yield max(0.0, time.monotonic() - due)
        if second < BEAT_SECONDS - 1:
            time.sleep(max(0.0, due - time.monotonic()))


def _same(client: KafkaClient) -> KafkaClient:
    return client


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--topics", type=int, nargs="+", default=[10, 100, 1000])
    options = parser.parse_args()
    before = machine()
    with tempfile.TemporaryDirectory() as root, KafkaCluster(Path(root) / "kafka", heap=HEAP) as kafka:
        folder = Path(root) / "files"
        make_root(folder.as_uri())
        with kafka.client() as client, kafka.client() as other:
            topic_setup.create(client, "streams.orders")
            open_log(folder.as_uri(), "orders", create=True)
            topics = [
                ControlLog(TopicStore(KafkaTopic(partial(_same, each), "here", "streams.orders"), "orders"), "orders")
                for each in (client, other)
            ]
            logs = {
                "file": (open_log(folder.as_uri(), "orders"), open_log(folder.as_uri(), "orders")),
                "kafka": (topics[0], topics[1]),
            }
            sides = alternating(logs, options.rounds)
            ratios = {
                what: round(sides[f"{what}, kafka"]["p50"] / sides[f"{what}, file"]["p50"], 2)
                for what in ("append", "notice", "beat")
            }
            show("one control log (s)", sides, {})
            print(f"kafka is so many times the file's p50: {ratios}", flush=True)
            many = looks(kafka, client, sorted(options.topics))
    for count, each in many.items():
        print(count, each)
    write("stores", {"sides": sides, "kafka_to_file": ratios, "topics": many, "machine": before})
    return 0


def looks(kafka: KafkaCluster, client: KafkaClient, sizes: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Look at ever more topics, and return by their number what one look costs, and what their heartbeats cost."""
    producer = KafkaProducer(
        bootstrap_servers=kafka.servers,
        acks="all",
        linger_ms=5,
        enable_idempotence=False,
        max_in_flight_requests_per_connection=1,  # or what is sent again comes behind later messages
    )
    broker = psutil.Process(kafka.pid(1))

    def broker_cpu() -> float:
        return float(broker.cpu_times().user + broker.cpu_times().system)

    found: dict[int, dict[str, Any]] = {}
    names: list[str] = []
    for count in sizes:
        new = [f"bench.s{number:04d}" for number in range(len(names), count)]
        make_topics(client, producer, new)
        names += new
        used = broker_cpu()
        costs = [look(kafka.extra, names) for _ in range(3)]
        look_broker = (broker_cpu() - used) / len(costs)
        messages = {name: stream(each["topic_id"].hex) for name, each in client.topics(names).items()}
        used, began = broker_cpu(), time.perf_counter()
        late = list(beats(producer, names, messages))
        seconds = time.perf_counter() - began
        size = sum(_size(message) for name in names for message in messages[name][-len(DRIVERS) :])
        found[count] = {
            "look_seconds": spread([each["seconds"] for each in costs]),
            "look_cpu_seconds": spread([each["cpu"] for each in costs]),
            "look_cores": round(min(each["cpu"] for each in costs) / PERIOD, 3),
            "look_bytes_per_topic": round(costs[-1]["bytes"] / count),
            "look_bytes_per_second": round(costs[-1]["bytes"] / PERIOD),
            "look_broker_cpu_seconds": round(look_broker, 3),
            "beats_broker_cores": round((broker_cpu() - used) / seconds, 3),
            "beats_bytes_per_second": size,
            "beats_late_seconds": spread(late),
        }
    producer.close()
    return found


if __name__ == "__main__":
    sys.exit(main())
