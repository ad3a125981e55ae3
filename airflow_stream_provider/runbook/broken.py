"""The DAGs of a stream whose YAML file cannot be used."""

from __future__ import annotations

from typing import Any, cast

from airflow.sdk import DAG, Context, Param
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowFailException
from typing_extensions import override

from airflow_stream_provider.operators.revive import ReviveStreamOperator
from airflow_stream_provider.operators.watch import LAST_GOOD
from airflow_stream_provider.runbook.options import DagOptions
from airflow_stream_provider.runbook.upgrade import upgrade_dag
from airflow_stream_provider.runbook.watch import revive_with
from airflow_stream_provider.spec.folder import StreamFile
from airflow_stream_provider.spec.salvage import salvage
from airflow_stream_provider.spec.stream import StreamSpec
from airflow_stream_provider.spec.watched import declared_spec


class ReviveUnusableStreamOperator(ReviveStreamOperator):
    """Bring back a stream whose YAML cannot be used, by the last good declaration that the watch has kept.

    Where nothing was ever good, and when a person triggers it, by those fields of the YAML that are right.

    :param file: the YAML file.
    :param watch: id of the DAG that watches the folder; the run to ask is the parameter `look` of this DAG.
    """

    def __init__(self, *, file: StreamFile, watch: str, **kwargs: Any) -> None:
        # The task finds its stream when it runs.
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
        path, problem = self.file.path, str(self.file.error)
        spec = declared_spec(path, fields) if isinstance(fields, dict) else salvage(path, problem)
        if spec is None:
            raise AirflowFailException(problem)
        return spec


def unusable_dag(file: StreamFile, options: DagOptions) -> DAG:
    """Return the ``NAME__upgrade`` of a stream whose YAML cannot be used: `check` fails with the error.

    It has the tasks of any upgrade: Airflow removes those that a DAG has no more from its runs, and the tasks that
    watch a new release, take it back and tell people would be gone. An upgrade that has begun goes on from the control
    log.

    Not an import error, which would make all DAGs of the file stale, those of the other streams too.
    """
    dag = upgrade_dag(file.known, options)
    dag.description = says = str(file.error)
    dag.tags.add("unusable")
    dag.doc_md = (
        "**This stream cannot be upgraded now.** It is watched by its last good declaration, and an upgrade that has "
        f"begun goes on from the control log. {says}"
    )
    # Without their limits, which every task checks: a run has the values that were right when it began.
    dag.params = ParamsDict({name: Param(dag.params[name]) for name in dag.params})
    return dag


def revive_unusable_dag(file: StreamFile, options: DagOptions, watch: str) -> DAG:
    """Return the ``NAME__revive`` of a stream whose YAML cannot be used.

    :param watch: id of the DAG that watches the folder.
    """
    return revive_with(ReviveUnusableStreamOperator, file.name, options, file=file, watch=watch)
