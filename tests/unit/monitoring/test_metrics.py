"""The gauges as a StatsD daemon gets them."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from airflow.sdk.observability import stats

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.vitals import QueryVitals, Vitals
from airflow_stream_provider.monitoring import metrics
from airflow_stream_provider.monitoring.incidents import Incident, IncidentState
from airflow_stream_provider.monitoring.samples import LagSample
from tests.support.lag_reports import partition, report
from tests.support.snapshots import UPGRADED, snapshot
from tests.support.story import NEW

ROOT = Path(__file__).parents[3]
DASHBOARD = json.loads(Path(metrics.__file__).with_name("dashboard.json").read_text())
# Of Airflow itself: runs of the DAGs, with the suffixes that exporters add.
AIRFLOWS = {"airflow_dagrun_duration_success", "airflow_dagrun_duration_failed"}
SENDS = """
from airflow_stream_provider.monitoring.metrics import emit
from tests.support.lag_reports import partition, report

emit("orders", report(partition(7), partition(None, 1), seconds=3.0))
"""


def sent(tmp_path: Path, **settings: str) -> dict[str, str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon:
        daemon.bind(("127.0.0.1", 0))
        daemon.setblocking(False)  # what was sent here is there once its sender has ended
        environment = {
            "AIRFLOW_HOME": str(tmp_path),
            "PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'support' / 'statsd_client'}",
            "AIRFLOW__METRICS__STATSD_ON": "True",
            "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1",
            "AIRFLOW__METRICS__STATSD_PORT": str(daemon.getsockname()[1]),
            **settings,
        }
        subprocess.run([sys.executable, "-c", textwrap.dedent(SENDS)], env=environment, check=True, timeout=600)
        found: dict[str, str] = {}
        while True:
            try:
                name, _, value = daemon.recv(4096).decode().partition(":")
            except BlockingIOError:
                return found
            found[name] = value


def test_a_plain_statsd_gets_names_that_need_no_tags(tmp_path: Path) -> None:
    found = sent(tmp_path)
    assert found["airflow.stream.lag.records.orders.enrich.t"] == "7.0|g"
    assert found["airflow.stream.lag.unknown.orders.enrich.t"] == "1.0|g"
    assert found["airflow.stream.lag.lost.orders.enrich.t"] == "0.0|g"
    assert _verdicts(found, "airflow.stream.lag.verdict.orders.enrich.") == {"UNKNOWN"}
    # The estimates by partition are not there, and what is not known is not sent.
    assert "airflow.stream.lag.seconds.orders.enrich.t" not in found


def test_tags_are_sent_where_they_are_wanted(tmp_path: Path) -> None:
    found = sent(
        tmp_path,
        AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED="True",
        AIRFLOW__METRICS__LEGACY_NAMES_ON="False",
    )
    assert found["airflow.stream.lag.records,stream=orders,query=enrich,topic=t"] == "7.0|g"
    assert not [name for name in found if "," not in name]


def _verdicts(found: Mapping[str, str], prefix: str) -> set[str]:
    return {name.removeprefix(prefix) for name, value in found.items() if name.startswith(prefix) and value == "1.0|g"}


@pytest.fixture
def gauges(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[tuple[dict[str, str], float]]]:
    """What is sent with tags, by name."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}

    def gauge(name: str, value: float, *, tags: dict[str, str]) -> None:
        found.setdefault(name, []).append((tags, value))

    monkeypatch.setattr(metrics, "_initialised", lambda: False)
    monkeypatch.setattr(stats.Stats, "gauge", gauge, raising=False)
    return found


def look() -> None:
    vitals = Vitals(5.0, heap_max=900, executors_lost={"lost": 2}, queries={"totals": QueryVitals({"addBatch": 3.0})})
    queries = (QueryProgress("enrich", gap_seconds=0.5), QueryProgress("totals"))
    beat = Heartbeat(queries=queries, vitals=vitals)
    incidents = {"down": IncidentState(incident=Incident("down-1", 100.0)), "lag": IncidentState()}
    metrics.emit_look(
        replace(snapshot(*UPGRADED), heartbeats={NEW: beat}),
        LagSample(110.0, phase="silent", incidents=incidents, runs_out={"heap": 60.0, "sink_log/totals": 90.0}),
    )


def test_a_look_sends_phase_incidents_epoch_and_gap(gauges: dict[str, list[tuple[dict[str, str], float]]]) -> None:
    look()
    assert [tags["phase"] for tags, value in gauges["stream.phase"] if value] == ["silent"]
    assert {tags["kind"]: value for tags, value in gauges["stream.incident"]} == {"down": 1.0, "lag": 0.0}
    assert gauges["stream.epoch"] == [({"stream": "orders"}, 2.0)]
    assert gauges["stream.gap.seconds"] == [({"stream": "orders", "query": "enrich"}, 0.5)], "the other is not known"


def test_a_look_sends_the_vitals_that_are_known_and_what_runs_out(
    gauges: dict[str, list[tuple[dict[str, str], float]]],
) -> None:
    look()
    vitals = {(tags["query"], tags["vital"]): value for tags, value in gauges["stream.vital"]}
    assert vitals == {
        ("-", "heap_max"): 900.0,
        ("-", "executors_lost"): 2.0,
        ("totals", "batches"): 0.0,
        ("totals", "ms_addBatch"): 3.0,
    }
    soon = {(tags["query"], tags["vital"]): value for tags, value in gauges["stream.runs_out.seconds"]}
    assert soon == {("-", "heap"): 60.0, ("totals", "sink_log"): 90.0}


def test_the_table_names_what_is_sent_and_the_dashboard_shows_all_of_it(
    gauges: dict[str, list[tuple[dict[str, str], float]]],
) -> None:
    metrics.emit("orders", report(replace(partition(7), seconds=3.0)))
    look()
    assert {name: tuple(each[0][0]) for name, each in gauges.items()} == metrics.METRICS
    expressions = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    shown = {name for each in expressions for name in re.findall(r"airflow_\w+", each)}
    assert shown - AIRFLOWS == {f"airflow_{name.replace('.', '_')}" for name in metrics.METRICS}


def test_the_dashboard_uses_tags_that_are_sent() -> None:
    known = {tag for tags in metrics.METRICS.values() for tag in tags} | {"dag_id"}
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            named = re.findall(r"by \(([^)]*)\)", target["expr"]) + re.findall(r"(\w+)=~", target["expr"])
            said = {tag for each in named for tag in each.split(", ")} - {"__name__"}
            assert said <= known, panel["title"]
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= said, panel["title"]
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
