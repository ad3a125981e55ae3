"""Real drivers on a real broker find the records at which their batches fail, and leave out those that a list names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from airflow_stream_provider.lifecycle.skip import KafkaRecord
from devstack.drivers import HandRunStream, wait_for
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import create_topics

APP = Path(__file__).parents[2] / "support" / "app_bad_kafka.py"
PARTITIONS = 2


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path / "kafka") as found:
        with found.client() as client:
            create_topics(client, {"orders": PARTITIONS})
        yield found


def send(servers: str, *texts: str) -> list[KafkaRecord]:
    producer = KafkaProducer(bootstrap_servers=servers)
    sent = [producer.send("orders", text.encode(), partition=at % PARTITIONS) for at, text in enumerate(texts)]
    found = [each.get(60) for each in sent]
    producer.close()
    return [KafkaRecord(each.topic, each.partition, each.offset, each.timestamp) for each in found]


@pytest.mark.system
def test_what_fails_in_the_plan_and_in_the_sink_is_found_and_left_out(
    stream: HandRunStream, brokers: KafkaCluster, tmp_path: Path
) -> None:
    lines = tmp_path / "data" / "lines"
    lines.mkdir(parents=True)

    def written() -> Counter[str]:
        return Counter(text for each in lines.iterdir() for text in each.read_text().split("\n") if text)

    def failing(one: str) -> set[str]:
        beat = stream.log.heartbeat(one)
        queries = beat.queries if beat is not None else ()
        return {each.name for each in queries if each.health is not None and each.health.state == "retrying"}

    good = [str(number) for number in range(100)]
    send(brokers.servers, *good)
    rest: Any = (APP, brokers.servers, str(tmp_path / "data"), str(tmp_path / "checkpoints"))
    stream.deploy("one", *rest, foreach_batch_safe=True)
    one = stream.standby("one")
    stream.hand_over(one)
    wait_for("all of them in the sink", lambda: written() == Counter(good))

    more = [str(number) for number in range(100, 1100)]
    texts = [*more[:700], "bad in the plan", *more[700:800], "bad in the sink", *more[800:]]
    sent = send(brokers.servers, *texts)
    plan, sink = sent[700], sent[801]
    wait_for("both queries to fail", lambda: failing(one) == {"lines", "counts"})

    stream.deploy("look", *rest, foreach_batch_safe=True, find=True)
    look = stream.standby("look")
    found = stream.state.incarnations[look].rehearsal["queries"]
    assert {name: said["bad"] for name, said in found.items()} == {"lines": [sink.name], "counts": [plan.name]}
    assert "no number" in found["counts"]["error"]
    assert "takes no such record" in found["lines"]["error"]
    assert stream.state.holder == one

    stream.deploy("two", *rest, foreach_batch_safe=True, skip=[str(plan), str(sink)])
    two = stream.standby("two")
    assert stream.state.incarnations[two].rehearsal["skips"] == 2
    stream.hand_over(two)
    wait_for("all others in the sink, once", lambda: written() == Counter([*good, *more]))
    # At another time the record of this place would be another one.
    (again,) = send(brokers.servers, "1100")
    stream.deploy("three", *rest, foreach_batch_safe=True, skip=[str(again._replace(timestamp=1))])
    stream.hand_over(stream.standby("three"))
    wait_for("the last one in the sink", lambda: written() == Counter([*good, *more, "1100"]))
