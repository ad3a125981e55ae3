"""A whole Airflow that runs drivers on this machine, for a test of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devstack.airflow import Airflow
from devstack.airflow_api import AirflowApi
from devstack.stack import LocalStack

ROOT = Path(__file__).parents[2]


@contextmanager
def whole_airflow(dags: Path, folder: Path) -> Iterator[AirflowApi]:
    """Run its scheduler, triggerer, DAG processor and API server over a folder of DAGs.

    :param folder: for what it writes.
    """
    with running_airflow(dags, folder) as airflow:
        yield airflow.api


@contextmanager
def running_airflow(dags: Path, folder: Path) -> Iterator[Airflow]:
    """The same, for a test that kills its processes."""
    variables = {**connections(folder), "PYTHONPATH": str(ROOT)}
    with LocalStack(folder / "stack", kafka=False, spark=False, dags_folder=dags, variables=variables) as stack:
        yield stack.airflow


def connections(folder: Path) -> dict[str, str]:
    """Environment variables by which this process reaches the drivers, too."""
    return {
        "AIRFLOW_CONN_SPARK_HERE": json.dumps({"conn_type": "spark", "host": "local[1]"}),
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_RUNTIME_DIR": str(folder / "runtime"),
    }
