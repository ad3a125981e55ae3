"""The DAGs of a stream whose YAML file cannot be used."""

from __future__ import annotations

from typing import Any, cast

from airflow.sdk import DAG, BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException
from typing_extensions import override

from airflow_stream_provider.operators.revive import ReviveStreamOperator
from airflow_stream_provider.operators.watch import LAST_GOOD
from airflow_stream_provider.runbook.options import DagOptions
from airflow_stream_provider.runbook.watch import revive_with
from airflow_stream_provider.spec.folder import StreamFile
from airflow_stream_provider.spec.salvage import salvage
from airflow_stream_provider.spec.stream import StreamSpec
from airflow_stream_provider.spec.watched import declared_spec


class UnusableStreamOperator(BaseOperator):
    """Fail with the error that reading the stream's YAML file raised."""

    def __init__(self, *, error: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.error = error

    @override
    def execute(self, context: Context) -> None:
        raise AirflowFailException(self.error)


class ReviveUnusableStreamOperator(ReviveStreamOperator):
    """Bring back a stream whose YAML cannot be used, by the last good declaration that the watch has kept.

    Where nothing was ever good, and when a person triggers it, by those fields of the YAML that are right.

    :param file: the YAML file.
    :param watch: id of the DAG that watches the folder; the run to ask is the parameter `look` of this DAG.
    """

    def __init__(self, *, file: StreamFile, watch: str, **kwargs: Any) -> None:
        # What stream it is, is found when the task runs.
        super().__init__(stream=cast("StreamSpec", None), **kwargs)
        self.file = file
        self.watch = watch

    @override
    def execute(self, context: Context) -> Any:
        self.stream = self._find(context)
        return super().execute(context)

    @override
    def resume(self, context: Context, event: Any = None) -> Any:
        self.stream = self._find(context)
        return super().resume(context, event)

    def _find(self, context: Context) -> StreamSpec:
        look = context["params"]["look"]
        kept: Any = None
        if look:
            kept = context["ti"].xcom_pull(
                dag_id=self.watch, task_ids="look", run_id=look, key=LAST_GOOD, map_indexes=-1
            )
        fields = kept.get(self.file.name) if isinstance(kept, dict) else None
        spec = declared_spec(self.file.path, fields) if isinstance(fields, dict) else salvage(self.file.path)
        if spec is None:
            raise AirflowFailException(str(self.file.error))
        return spec


def unusable_dag(file: StreamFile, options: DagOptions) -> DAG:
    """Return the ``NAME__upgrade`` of a stream whose YAML cannot be used: its one task fails with the error.

    Not an import error, which would make all DAGs of the file stale, those of the other streams too.
    """
    says = str(file.error)
    with options.dag(
        file.name,
        "upgrade",
        description=says,
        tags=["stream", "unusable"],
        doc_md=f"**This stream cannot be upgraded.** It is watched by its last good declaration. {says}",
    ) as dag:
        UnusableStreamOperator(task_id="read_yaml", error=says)
    return dag


def revive_unusable_dag(file: StreamFile, options: DagOptions, watch: str) -> DAG:
    """Return the ``NAME__revive`` of a stream whose YAML cannot be used.

    :param watch: id of the DAG that watches the folder.
    """
    return revive_with(ReviveUnusableStreamOperator, file.name, options, file=file, watch=watch)
