"""What OpenLineage is told of an upgrade, in the file of its own transport; skipped where its provider is missing."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.airflow_world import Airflow, World

pytest.importorskip("airflow.providers.openlineage", reason="apache-airflow-providers-openlineage is not installed")

SAYS = {
    "kafka_sources": [{"option": "subscribe", "topics": "orders", "servers": ["k:9092"]}],
    "sink": "kafka",
    "target": "enriched",
    "sink_servers": ["k:9092"],
}
KEY = "not-to-travel"


@pytest.fixture
def told(airflow: Airflow, tmp_path: Path) -> Iterator[tuple[Airflow, Path]]:
    """An Airflow that tells OpenLineage, and the file of the events; it has an address with a key, too."""
    events = tmp_path / "events.jsonl"
    http = {
        "type": "http",
        "url": "http://127.0.0.1:1",
        "auth": {"type": "api_key", "apiKey": KEY},
        "retry": {"total": 0},
    }
    transports = {"file": {"type": "file", "log_file_path": str(events), "append": True}, "http": http}
    settings = {
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps({"type": "composite", "transports": transports}),
        "AIRFLOW__OPENLINEAGE__SPARK_INJECT_PARENT_JOB_INFO": "True",
        "AIRFLOW__OPENLINEAGE__SPARK_INJECT_TRANSPORT_INFO": "True",
    }
    command = [sys.executable, "-m", "tests.integration.airflow.worker"]
    running = Airflow(command, {**airflow.environment, **settings}, tmp_path / "worker.log")
    try:
        yield running, events
    finally:
        running.end()


def test_an_upgrade_is_told_with_its_data_its_holders_and_the_parent_of_its_driver(
    told: tuple[Airflow, Path], tmp_path: Path
) -> None:
    airflow, path = told
    world = World(airflow, tmp_path, "lineage")
    try:
        world.application.write_text(f"QUERIES = ('enrich',)\nSAYS = {SAYS!r}\n")
        world.deploy("1")
        world.deploy("2")
        events = [json.loads(line) for line in path.read_text().splitlines()]
        driver = next(pid for pid, deployment in world.drivers().items() if deployment.startswith("lineage-2-"))
        line = " ".join(psutil.Process(driver).cmdline())
        # The parent's run is nowhere but in what was submitted.
        written = json.dumps([record.fields for record in world.log.records()])
    finally:
        world.end()

    def last(task: str) -> dict[str, Any]:
        job = f"lineage__upgrade.{task}"
        found: list[dict[str, Any]] = [e for e in events if (e["job"]["name"], e["eventType"]) == (job, "COMPLETE")]
        return found[-1]

    submit, over = last("submit"), last("hand_over")
    assert places(submit["inputs"]) == places(over["inputs"]) == [("kafka://k:9092", "orders")]
    assert places(over["outputs"]) == places(last("soak")["outputs"]) == [("kafka://k:9092", "enriched")]
    assert places(submit["outputs"]) == [], "what stands by has written nothing"
    assert "stream_holder" not in submit["run"]["facets"], "it has changed no holder"
    facet = over["run"]["facets"]["stream_holder"]
    assert (facet["stream"], facet["epoch"], facet["version"], facet["previous_version"]) == ("lineage", 2, "2", "1")
    assert facet["gap_seconds"]["enrich"] >= 0.0
    assert f"spark.openlineage.parentRunId={submit['run']['runId']}" in line
    assert "spark.openlineage.parentJobName=lineage__upgrade.submit" in line
    assert "openlineage" not in written
    assert KEY not in line + written
    assert "transport" not in line


def places(data: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["namespace"], each["name"]) for each in data]
