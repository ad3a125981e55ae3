"""The gauges as a StatsD daemon gets them."""

from __future__ import annotations

import socket
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[3]
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
