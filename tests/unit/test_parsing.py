"""What a DAG file that is parsed must not import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# First a DAG file alone, which needs neither checkpoints nor notifiers; then whatever else users import into one.
PARSED = """
import sys
from airflow_stream_provider import stream_dags
stream_dags("dags/streams")
rooms = ("checkpoint", "monitoring.recipients", "planning.conditions", "hooks.connections")
ours = {f"airflow_stream_provider.{each}" for each in rooms}
print(sorted(ours & set(sys.modules)))
import airflow_stream_provider.plugin.entry
import airflow_stream_provider.notifications.lag
import airflow_stream_provider.operators.lag
import airflow_stream_provider.sensors.lag
import airflow_stream_provider.triggers.lag_event
print(sorted({"kafka", "pyspark", "py4j", "fastapi"} & set(sys.modules)))
"""


def test_parsing_imports_no_more_than_it_needs(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    environment = {"AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": str(root)}
    ran = subprocess.run(
        [sys.executable, "-c", PARSED],
        env=environment,
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.stdout.splitlines()[-2:] == ["[]", "[]"], ran.stdout
