"""What the benchmarks of control topics look at is what the watch looks at, and with the watch's own code."""

from __future__ import annotations

from airflow_stream_provider.monitoring import samples
from benchmarks import topic_looks
from devstack.kafka_cluster import KafkaCluster
from tests.support.one_broker import kafka

__all__ = ["kafka"]


def test_a_look_of_the_benchmark_is_one_of_the_watch(kafka: KafkaCluster) -> None:
    with topic_looks.control_root(kafka) as root:
        logs = topic_looks.make_streams(kafka, root, 0, 1)
        topic_looks.look(kafka, 1)
        first = samples.last(root.samples("s0000"))
        assert first is not None
        assert first.phase == "running"
        assert len(topic_looks.beat(logs)) == topic_looks.BEATS
        cost = topic_looks.look(kafka, 1)
        last = samples.last(root.samples("s0000"))
        assert last is not None
        assert last.moved.keys() == {topic_looks.DRIVERS[0]}, "it has seen the driver beat"
        assert cost["bytes"] > 0
