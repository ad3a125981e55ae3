"""The DAG that looks after all streams of a folder, and the one that brings them back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, Context
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowFailException
from typing_extensions import override

from airflow_stream_provider.hooks.failing import failing_without_retry
from airflow_stream_provider.operators.watch import ReviveStreamOperator, WatchStreamsOperator
from airflow_stream_provider.planning.operation import MAX_REASON
from airflow_stream_provider.runbook.form import DagOptions, optional, required, said
from airflow_stream_provider.runbook.words import REVIVE, WATCH, task
from airflow_stream_provider.spec.folder import find_spec
from airflow_stream_provider.spec.watched import CHANGE, REFRESH
from airflow_stream_provider.triggers.grace import TRIGGER_GRACE_SECONDS

# A look begins though the triggers of the run before still wait for a slot.
RUNS = 5
# A look has deadlines of its own for all that may hang; this one is for unexpected hangs.
LOOK_SECONDS = 300.0
# A process that nothing can end, on a dead mount say, must not keep all later runs from theirs. Airflow counts from the
# start of a run: one that waits in the queue of a paused DAG is not ended.
WATCH_RUN_SECONDS = 3 * LOOK_SECONDS
REVIVE_RUN_SECONDS = ReviveStreamOperator.WAIT_SECONDS + TRIGGER_GRACE_SECONDS + 600.0
# Each stream has one run at a time, or two (see `planning.due.due_without_cluster`), and all may be down. Each step is
# safe beside others.
REVIVE_RUNS = 2000
_ABOUT_WATCH = """\
Looks after all streams of the folder {name}: measures lag and health, tells people of incidents, and triggers
`{name}__revive` for a stream that has lost its driver, or for which a task died that had wished something. It wishes
nothing itself, and leaves alone a stream that a person stopped.

Paused, it looks at **no** stream of the folder. To leave one stream alone, stop it, or write
`watch: {{schedule: null}}` in its YAML.
"""
_ABOUT_REVIVE = """\
Brings a stream of the folder {name} back when it has lost its driver. The watch of the folder triggers it; a run that
finds nothing to do is skipped with the reason. It goes by what was declared last, and needs no YAML.

**Paused, it means: bring no stream of this folder back.** People are still told that one is down. A run that waits here
is not an error: it looks anew when this DAG is unpaused, and does only what is due then.
"""


class TriggerStreamRunOperator(TriggerDagRunOperator):
    """Trigger ``FOLDER__revive``, or by `upgrade.on_change` or `refresh` ``NAME__upgrade``, for a stream; no other DAG.

    The findings of a look come by XCom, and its writers need not be allowed to trigger any DAG: only the stream, and
    the wish of an upgrade, are taken from there. The revival itself checks which streams it may bring back.

    :param streams: the folder of the YAML files.
    :param prefix: of the DAG ids.
    :param revive_dag_id: of the DAG that brings streams back.
    """

    def __init__(self, *, streams: str | Path, prefix: str, revive_dag_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.streams = streams
        self.prefix = prefix
        self.revive_dag_id = revive_dag_id

    @override
    def execute(self, context: Context) -> Any:
        if self.trigger_dag_id == self.revive_dag_id:
            said = self.conf if isinstance(self.conf, Mapping) else {}
            self.conf = {name: str(said.get(name) or "") for name in ("stream", "control")}
            return super().execute(context)
        name, _, verb = self.trigger_dag_id.removeprefix(self.prefix).rpartition("__")
        with failing_without_retry():
            ours = self.trigger_dag_id.startswith(self.prefix) and verb == "upgrade"
            spec = find_spec(self.streams, name) if ours else None
        run, said = str(self.trigger_run_id), self.conf if isinstance(self.conf, Mapping) else {}
        if spec is not None and spec.upgrade.refresh == "auto" and run.startswith(REFRESH) and said.get("release"):
            # `check` refuses every release but that of the holder.
            self.conf = {name: str(said.get(name) or "")[:MAX_REASON] for name in ("release", "reason")}
            return super().execute(context)
        if spec is None or not spec.upgrade.on_change:
            raise AirflowFailException(
                f"{self.trigger_dag_id:.200} is not triggered: it brings back or upgrades no stream of {self.streams}. "
                "Another task may have written this XCom, or the YAML has changed since; the next look finds out."
            )
        self.trigger_run_id, self.conf = f"{CHANGE}{run.removeprefix(CHANGE)}", {}
        return super().execute(context)


def watch_dag(name: str, folder: Path, options: DagOptions, seconds: float | None) -> DAG:
    """Return ``FOLDER__watch``: looks at all streams of a folder, and triggers ``FOLDER__revive`` where it is needed.

    :param name: of the folder.
    :param seconds: between two looks; None: only when a person triggers it.
    """
    with options.dag(
        name,
        "watch",
        description=f"Watch the streams of {name}: lag, health, alerts; bring back those that have died.",
        schedule=None if seconds is None else timedelta(seconds=seconds),
        start_date=datetime(2025, 1, 1, tzinfo=UTC),
        # Unpaused: a paused watch would be noticed only when a stream is already down.
        is_paused_upon_creation=False,
        max_active_runs=RUNS,
        dagrun_timeout=timedelta(seconds=WATCH_RUN_SECONDS),
        tags=["stream"],
        doc_md=_ABOUT_WATCH.format(name=name),
    ) as dag:
        # One at a time: each look goes on from the one before.
        look = WatchStreamsOperator(
            **task(WATCH, "look"),
            streams=folder,
            prefix=options.prefix,
            revive_dag_id=options.dag_id(name, "revive"),
            max_active_tis_per_dag=1,
            execution_timeout=timedelta(seconds=LOOK_SECONDS),
        )
        # A cleared task finds the run that it has triggered.
        TriggerStreamRunOperator.partial(
            **task(WATCH, "revive"),
            streams=str(folder),
            prefix=options.prefix,
            revive_dag_id=options.dag_id(name, "revive"),
            skip_when_already_exists=True,
        ).expand_kwargs(look.output)
    return dag


def revive_dag(name: str, options: DagOptions) -> DAG:
    """Return ``FOLDER__revive``: brings a stream of a folder back when it has lost its driver.

    :param name: of the folder.
    """
    with options.dag(
        name,
        "revive",
        description=f"Bring back a stream of {name} that has lost its driver.",
        # Triggered by the watch: paused on creation, it would leave every stream down.
        is_paused_upon_creation=False,
        max_active_runs=REVIVE_RUNS,
        max_active_tasks=REVIVE_RUNS,
        dagrun_timeout=timedelta(seconds=REVIVE_RUN_SECONDS),
        tags=["stream"],
        doc_md=_ABOUT_REVIVE.format(name=name),
    ) as dag:
        ReviveStreamOperator(
            **task(REVIVE, "revive"),
            name=said("stream"),
            control=said("control"),
            watch=options.dag_id(name, "watch"),
        )
    # After the operator, which would copy them.
    dag.params = ParamsDict(
        {
            "stream": required("the stream to bring back."),
            "control": optional("URL of its control root; empty: the one that has it."),
        }
    )
    return dag
