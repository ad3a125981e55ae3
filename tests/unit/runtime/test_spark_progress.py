"""What the heartbeat tells of Spark's progress, for the scripts of other drivers."""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.runtime.spark_progress import told_of
from tests.support.real_run import progress_json


def test_a_heartbeat_tells_no_secrets_and_not_what_the_script_observes() -> None:
    sources = [{"description": "jdbc:postgresql://user:hunter2secret@db/orders", "endOffset": {"orders": {"0": 5}}}]
    body = progress_json(3, sources=sources, observedMetrics={"m": {"max(email)": "a@b.c"}})
    told: Any = told_of(body)
    assert "hunter2secret" not in str(told)
    assert "observedMetrics" not in told
    assert (told["sources"][0]["endOffset"], told["batchId"]) == ({"orders": {"0": 5}}, 3)
    assert body["sources"] == sources, "what Spark said is not changed"
