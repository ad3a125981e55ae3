"""The DAGs of a stream whose YAML file cannot be used."""

from __future__ import annotations

import re
from collections.abc import Container
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException
from typing_extensions import override

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.operators.watch import WatchStreamOperator
from airflow_stream_provider.runbook.watch import watch_dag
from airflow_stream_provider.spec.salvage import salvage

if TYPE_CHECKING:
    from airflow_stream_provider.hooks.stream import StreamHook


class UnusableStreamOperator(BaseOperator):
    """Fail with the error that reading the stream's YAML file raised."""

    def __init__(self, *, error: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.error = error

    @override
    def execute(self, context: Context) -> None:
        raise AirflowFailException(self.error)


class WatchUnusableStreamOperator(WatchStreamOperator):
    """Watch a stream by what is right in its YAML and by its control log.

    A `cluster` that the YAML does not say is that of the last submission. What is started again is what the log
    declared, as in every watch.
    """

    @cached_property
    def hook(self) -> StreamHook:
        """The hook of the stream, in every process that works on the task."""
        hook = super().hook
        if not hook.cluster_conn_id and hook.folder.exists():
            used = [each.cluster for each in hook.control_log.refresh().deployments.values() if each.cluster]
            hook.cluster_conn_id = used[-1] if used else ""
        return hook


def broken_dags(error: SpecError, taken: Container[str]) -> list[DAG]:
    """Return ``NAME__upgrade``, whose one task fails with the error, and ``NAME__watch`` as far as it can go on.

    Not an import error, which would make all DAGs of the file stale, those of the other streams too.

    :param taken: DAG ids that others have.
    """
    path = Path(str(error.fields.get("file", "stream.yaml")))
    spec = salvage(path)
    if spec is not None and f"{spec.name}__watch" in taken:
        spec = None
    name = spec.name if spec else re.sub(r"[^A-Za-z0-9_.-]", "-", path.stem)[:200]
    if f"{name}__upgrade" in taken:
        name = re.sub(r"[^A-Za-z0-9_.-]", "-", path.name)[:200]
    watched = "It is still watched." if spec else "It is **not watched**."
    with DAG(
        f"{name}__upgrade",
        description=str(error),
        schedule=None,
        catchup=False,
        tags=["stream", "unusable"],
        doc_md=f"**This stream cannot be upgraded.** {watched} {error}",
    ) as dag:
        UnusableStreamOperator(task_id="read_yaml", error=str(error))
    return [dag, watch_dag(spec, WatchUnusableStreamOperator)] if spec else [dag]
