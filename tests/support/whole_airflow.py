"""A whole Airflow that runs drivers on this machine, for a test of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devstack.airflow_api import AirflowApi
from devstack.stack import LocalStack

ROOT = Path(__file__).parents[2]


@contextmanager
def whole_airflow(dags: Path, folder: Path) -> Iterator[AirflowApi]:
    """Run its scheduler, triggerer, DAG processor and API server over a folder of DAGs.

    :param folder: for what it writes.
    """
    variables = {
        "AIRFLOW_CONN_SPARK_HERE": json.dumps({"conn_type": "spark", "host": "local[1]"}),
        "PYTHONPATH": str(ROOT),
        "XDG_STATE_HOME": str(folder / "state"),
    }
    with LocalStack(folder / "stack", kafka=False, spark=False, dags_folder=dags, variables=variables) as stack:
        yield stack.airflow.api
