"""What has a position (source, checkpoint, sink) is compared as one thing, by real drivers on real brokers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from airflow_stream_provider.checkpoint import boundary, read
from devstack.drivers import HandRunStream, wait_for
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import create_topics

APP = Path(__file__).parents[2] / "support" / "app_positions_kafka.py"
GROUP = Path(__file__).parents[2] / "support" / "app_group_kafka.py"
PARTITIONS = 2

pytestmark = pytest.mark.system


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path / "kafka") as found:
        yield found


def send(brokers: KafkaCluster, numbers: range) -> None:
    """Number N is in partition N % 2."""
    producer = KafkaProducer(bootstrap_servers=brokers.servers)
    for each in [producer.send("orders", str(n).encode(), partition=n % PARTITIONS) for n in numbers]:
        each.get(60)
    producer.close()


def make_topic(brokers: KafkaCluster) -> None:
    with brokers.client() as client:
        create_topics(client, {"orders": PARTITIONS})


def delivered(target: Path) -> Counter[int]:
    """How often each number is in the sink, as Spark reads it: in the files that the sink's log names."""
    log = target / "_spark_metadata"
    files = [path for path in log.iterdir() if not path.name.startswith(".")] if log.exists() else []
    lines = (line for batch in files for line in batch.read_text().split("\n")[1:] if line)
    found = {json.loads(line)["path"].removeprefix("file://") for line in lines}
    return Counter(int(json.loads(line)["id"]) for file in found for line in Path(file).read_text().splitlines())


def refused(stream: HandRunStream, deployment: str) -> str:
    """Wait until a release is refused, and return why; what holds still holds."""
    holder = stream.state.holder
    wait_for("the refusal", lambda: stream.state.deployments[deployment].ended)
    assert stream.state.holder == holder
    return str(stream.state.deployments[deployment].reason)


def test_another_kafka_is_refused_and_named_as_changed_exactly_what_was_announced_is_read(
    stream: HandRunStream, brokers: KafkaCluster, tmp_path: Path
) -> None:
    checkpoint, target = str(tmp_path / "checkpoints" / "lines"), tmp_path / "lines"
    with KafkaCluster(tmp_path / "kafka-2", cluster_id="YW5vdGhlci1zdGFjay0wMA") as others:
        for each in (brokers, others):
            make_topic(each)
        send(brokers, range(200))
        send(others, range(1000, 1300))  # the same topic, and other records at the same offsets
        stream.deploy("orders-1", APP, brokers.servers, "earliest", checkpoint, str(target))
        one = stream.standby("orders-1")
        stream.hand_over(one)
        wait_for("the records of the one Kafka", lambda: len(delivered(target)) == 200)
        (source,) = stream.state.incarnations[one].queries[0]["kafka_sources"]
        assert source["cluster"] == "bG9jYWwtc3RhY2stMDAwMA"

        stream.deploy("orders-2", APP, others.servers, "earliest", checkpoint, str(target))
        reason = refused(stream, "orders-2")
        assert "The query lines reads orders from another Kafka, YW5vdGhlci1zdGFjay0wMA" in reason
        assert "instead of bG9jYWwtc3RhY2stMDAwMA" in reason
        # The plain path says that a checkpoint is added or dropped, which is not the question.
        stream.deploy(
            "orders-3", APP, others.servers, "earliest", checkpoint, str(target), changed_checkpoints=[checkpoint]
        )
        assert "from another Kafka" in refused(stream, "orders-3")
        # The release before would go on at the offsets of the other one.
        named = [f"{checkpoint}: source"]
        stream.deploy("orders-4", APP, others.servers, "earliest", checkpoint, str(target), changed_checkpoints=named)
        assert refused(stream, "orders-4").startswith("There would be no way back: The query lines reads orders from")
        # The same Kafka by another name of its machine is no other one.
        same = brokers.servers.replace("127.0.0.1", "localhost")
        assert same != brokers.servers
        stream.deploy("orders-5", APP, same, "earliest", checkpoint, str(target))
        five = stream.standby("orders-5")
        assert stream.state.holder == one
        assert "another Kafka" not in str(stream.state.incarnations[five].rehearsal["notes"])

        stream.deploy(
            "orders-6",
            APP,
            others.servers,
            "earliest",
            checkpoint,
            str(target),
            changed_checkpoints=named,
            no_way_back=True,
        )
        six = stream.standby("orders-6")
        notes = " ".join(stream.state.incarnations[six].rehearsal["notes"])
        assert "200 records lie before them and are not read, and 100 are read" in notes
        stream.hand_over(six)
        wait_for("what was announced", lambda: sum(delivered(target).values()) == 300)
        send(others, range(1300, 1310))
        wait_for("what came later", lambda: sum(delivered(target).values()) == 310)
        assert delivered(target) == Counter([*range(200), *range(1200, 1310)])
        wait_for("the commit", lambda: read(checkpoint).committed == {"orders": {0: 155, 1: 155}})


def test_a_topic_that_was_made_anew_is_refused_though_its_log_is_long_enough(
    stream: HandRunStream, brokers: KafkaCluster, tmp_path: Path
) -> None:
    checkpoint, target = str(tmp_path / "checkpoints" / "lines"), tmp_path / "lines"
    make_topic(brokers)
    send(brokers, range(20))
    stream.deploy("orders-1", APP, brokers.servers, "earliest", checkpoint, str(target))
    stream.hand_over(stream.standby("orders-1"))
    wait_for("the records", lambda: len(delivered(target)) == 20)
    wait_for("the commit", lambda: read(checkpoint).committed == {"orders": {0: 10, 1: 10}})
    stream.request(None)
    wait_for("the stop", lambda: stream.state.holder is None)
    admin = KafkaAdminClient(bootstrap_servers=brokers.servers)
    admin.delete_topics(["orders"])
    wait_for("the end of the topic", lambda: "orders" not in admin.list_topics())
    admin.close()
    make_topic(brokers)
    send(brokers, range(1000, 1030))  # the offsets of the checkpoint are there, and nothing of Spark's fails

    stream.deploy("orders-2", APP, brokers.servers, "earliest", checkpoint, str(target))
    assert "The query lines reads orders, deleted and made anew since" in refused(stream, "orders-2")
    named = [f"{checkpoint}: source"]
    stream.deploy("orders-3", APP, brokers.servers, "earliest", checkpoint, str(target), changed_checkpoints=named)
    three = stream.standby("orders-3")
    notes = " ".join(stream.state.incarnations[three].rehearsal["notes"])
    assert "20 records lie before them and are not read, and 10 are read" in notes
    stream.hand_over(three)
    wait_for("what was announced", lambda: delivered(target) == Counter([*range(20), *range(1020, 1030)]))


def test_a_file_sink_on_a_new_checkpoint_is_refused_and_in_a_new_folder_it_reads_what_was_announced(
    stream: HandRunStream, brokers: KafkaCluster, tmp_path: Path
) -> None:
    a, b = (str(tmp_path / "checkpoints" / name) for name in "ab")
    target, other = tmp_path / "lines", tmp_path / "lines-2"
    make_topic(brokers)
    send(brokers, range(200))
    stream.deploy("orders-1", APP, brokers.servers, "earliest", a, str(target))
    one = stream.standby("orders-1")
    stream.hand_over(one)
    wait_for("the first records", lambda: len(delivered(target)) == 200)

    begins = json.dumps({"orders": {"0": 90, "1": 110}})
    send(brokers, range(200, 220))
    wait_for("all of them", lambda: len(delivered(target)) == 220)
    # The sink's log has a batch before the checkpoint has its commit.
    wait_for("the commit", lambda: read(a).committed == {"orders": {0: 110, 1: 110}})
    last = boundary(a).commit
    stream.deploy("orders-2", APP, brokers.servers, begins, b, str(target), changed_checkpoints=[a, b])
    reason = refused(stream, "orders-2")
    assert f"whose log has batches up to {last}, and its checkpoint goes on with batch 0" in reason
    assert f"so the next {(last or 0) + 1} would be committed and never written" in reason

    stream.deploy("orders-3", APP, brokers.servers, begins, b, str(other), changed_checkpoints=[a, b])
    three = stream.standby("orders-3")
    notes = " ".join(stream.state.incarnations[three].rehearsal["notes"])
    # Committed are 110 in both partitions: 20 of partition 0 once more, and nothing is left out.
    assert "20 records are there to read, 20 of them once more, and 0 that were not read" in notes
    stream.hand_over(three)
    wait_for("what was announced", lambda: sum(delivered(other).values()) == 20)
    send(brokers, range(220, 230))
    wait_for("what came later", lambda: sum(delivered(other).values()) == 30)
    assert delivered(other) == Counter([*range(180, 220, 2), *range(220, 230)])


def test_a_folder_that_lacks_the_batches_of_the_checkpoint_is_refused_whatever_is_named(
    stream: HandRunStream, brokers: KafkaCluster, tmp_path: Path
) -> None:
    checkpoint, target, other = str(tmp_path / "checkpoints" / "lines"), tmp_path / "lines", tmp_path / "lines-2"
    make_topic(brokers)
    send(brokers, range(20))
    stream.deploy("orders-1", APP, brokers.servers, "earliest", checkpoint, str(target), "xml")
    stream.hand_over(stream.standby("orders-1"))
    wait_for("a batch", lambda: boundary(checkpoint).commit is not None)
    stream.deploy("orders-2", APP, brokers.servers, "earliest", checkpoint, str(other), "xml")
    assert f"writes to xml {other} instead of xml {target}" in refused(stream, "orders-2")
    named = [f"{checkpoint}: sink", f"{checkpoint}: sink_log"]
    stream.deploy(
        "orders-3", APP, brokers.servers, "earliest", checkpoint, str(other), "xml", changed_checkpoints=named
    )
    assert "the log in that folder has none" in refused(stream, "orders-3")
    # Written in another way it is the same folder.
    stream.deploy("orders-4", APP, brokers.servers, "earliest", f"file://{checkpoint}", f"file://{target}/", "xml")
    stream.standby("orders-4")


def test_a_group_that_two_drivers_would_be_members_of_is_refused_when_the_query_starts(
    stream: HandRunStream, brokers: KafkaCluster, tmp_path: Path
) -> None:
    make_topic(brokers)
    send(brokers, range(20))
    stream.deploy("orders-1", GROUP, brokers.servers, str(tmp_path), "default")
    one = stream.standby("orders-1")
    stream.hand_over(one)
    wait_for("the records", lambda: len(delivered(tmp_path / "lines")) == 20)
    stream.deploy("orders-2", GROUP, brokers.servers, str(tmp_path), "legacy")
    assert "would be members of one group" in refused(stream, "orders-2")
    send(brokers, range(20, 40))
    wait_for("all of them", lambda: delivered(tmp_path / "lines") == Counter(range(40)))
    assert stream.state.holder == one
