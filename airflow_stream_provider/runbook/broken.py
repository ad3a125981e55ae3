"""The DAG of a stream whose YAML file cannot be used."""

from __future__ import annotations

import re
from collections.abc import Container
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException
from typing_extensions import override

from airflow_stream_provider.lifecycle.errors import SpecError


class UnusableStreamOperator(BaseOperator):
    """Fail with the error that reading the stream's YAML file raised."""

    def __init__(self, *, error: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.error = error

    @override
    def execute(self, context: Context) -> None:
        raise AirflowFailException(self.error)


def broken_dag(error: SpecError, taken: Container[str]) -> DAG:
    """Return a DAG whose one task fails with the error.

    Not an import error: Airflow marks every DAG of a file with an import error as stale, and the other streams of the
    folder could not be upgraded until somebody has corrected this one.
    """
    path = Path(str(error.fields.get("file", "stream.yaml")))
    stem = re.sub(r"[^\w.-]", "-", path.stem)
    dag_id = f"{stem}__upgrade"
    if dag_id in taken:
        dag_id = f"{re.sub(r'[^A-Za-z0-9_.-]', '-', path.name)}__upgrade"
    with DAG(
        dag_id,
        description=str(error),
        schedule=None,
        catchup=False,
        tags=["stream", "unusable"],
        doc_md=f"**This stream cannot be used.** {error}",
    ) as dag:
        UnusableStreamOperator(task_id="read_yaml", error=str(error))
    return dag
