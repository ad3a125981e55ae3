from __future__ import annotations

import json

from airflow_stream_provider.lag.report import LagReport, PartitionLag, PartitionState, QueryLag, Verdict
from airflow_stream_provider.lag.summary import summary
from tests.support.lag_reports import partition, report


def test_a_summary_shows_the_partitions_to_look_at_first_and_no_more_than_a_hundred() -> None:
    many = [partition(n, n) for n in range(100)] + [partition(None, 100 + n) for n in range(30)]
    found = json.loads(json.dumps(summary(report(*many))))
    (query,) = found["queries"]
    assert (query["partition_count"], query["unknown_partitions"], len(query["partitions"])) == (130, 30, 100)
    assert [p["lag"] for p in query["partitions"][28:33]] == [None, None, 99, 98, 97]
    assert found["records"] == sum(range(100))
    assert found["complete"] is False
    assert "partitions" not in summary(report(*many), partitions=False)["queries"][0]


def test_a_summary_tells_what_is_not_known_from_zero() -> None:
    lonely = PartitionLag("t", 0, PartitionState.UNREADABLE, verdict=None)
    found = summary(LagReport(0.0, (QueryLag("a", (lonely,), problem="Kafka refuses us."),)))
    assert (found["records"], found["seconds"], found["verdict"]) == (None, None, "UNKNOWN")
    assert found["queries"][0]["partitions"][0]["verdict"] is None
    assert summary(report(partition(1, verdict=Verdict.STOP)))["verdict"] == "ERR"
