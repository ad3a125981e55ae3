"""The DAGs of a folder of streams."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from airflow.sdk import DAG, Context, Param, get_parsing_context
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowFailException
from typing_extensions import override

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.operators.stream import ReviveStreamOperator
from airflow_stream_provider.runbook.form import DagOptions
from airflow_stream_provider.runbook.operate import operate_dag
from airflow_stream_provider.runbook.upgrade import retire_dag, upgrade_dag
from airflow_stream_provider.runbook.watch import revive_dag, revive_with, watch_dag
from airflow_stream_provider.spec.folder import StreamFile, find_file, load_specs, read_folder, salvage
from airflow_stream_provider.spec.stream import StreamSpec
from airflow_stream_provider.spec.watched import LAST_GOOD, declared_spec


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


_MAKERS = {"upgrade": upgrade_dag, "operate": operate_dag, "retire": retire_dag, "revive": revive_dag}
# Between two looks of the watch, where no stream says otherwise.
_WATCH_SECONDS = 60.0


def stream_dags(
    folder: str | Path,
    *,
    default_args: Mapping[str, Any] | None = None,
    queue: str | None = None,
    pool: str | None = None,
    executor_config: Mapping[str, Any] | None = None,
    access_control: Mapping[str, Any] | None = None,
    owner: str | None = None,
    tags: Collection[str] = (),
    prefix: str = "",
) -> dict[str, DAG]:
    """Return the DAGs of every stream described in a folder, by DAG id; for `globals().update(...)` in a DAG file.

    They are ``NAME__upgrade``, ``NAME__operate``, ``NAME__retire`` and ``NAME__revive`` of each stream, and one
    ``FOLDER__watch``. In a task's process only the DAG of that task is built, and only the YAML file that it needs is
    read: the start of a task does not grow with the number of streams, as long as files are named like their streams.

    A file that cannot be used does not remove the other streams' DAGs: its stream is watched by its last good
    declaration, and a new upgrade fails with the file, line and field to correct. `check_stream_dags` makes an import
    error of it. Where the whole folder is gone, the watch stays, and says so.

    :param folder: of the YAML files; relative to the file that calls this.
    :param default_args: of all tasks, as for any DAG; what we say of a task counts more. Example:
        ``{"execution_timeout": timedelta(hours=2)}``; default: three retries, 10 s apart. A `start_date` has no
        effect: a new `upgrade.schedule` begins at its next time.
    :param queue: of all tasks, for a worker that mounts the control folder: ``"streams"``.
    :param pool: of all tasks: ``"streams"``. It must exist in Airflow, with at least three slots for each stream that
        is upgraded at a time and one for the watch.
    :param executor_config: of all tasks: ``{"pod_override": V1Pod(...)}``, which mounts the control folder.
    :param access_control: of all DAGs, by role: ``{"Op": {"can_read", "can_edit"}}``.
    :param owner: of all tasks: ``"payments"``; default: Airflow's.
    :param tags: of all DAGs, beside `stream` and the stream's name: ``["payments"]``.
    :param prefix: the beginning of all DAG ids, such as ``"payments."``. One of two folders of the same name needs it.
    :raises SpecError: one of these cannot be used; the folder's files never raise.
    """
    options = DagOptions(default_args or {}, queue, pool, executor_config, access_control, owner, tags, prefix)
    path, name = _place(folder)
    wanted = get_parsing_context().dag_id
    if wanted is not None:
        return _one(wanted, path, name, options)
    try:
        files = read_folder(path)
    except SpecError:
        files = []
    found = [dag for file in files for dag in _dags(file, options, name)]
    found.append(watch_dag(name, path, options, _seconds(files)))
    return {dag.dag_id: dag for dag in found}


def check_stream_dags(folder: str | Path) -> None:
    """Raise unless every stream described in a folder can be used: in a DAG file of its own, the import error of them.

    `stream_dags` raises nothing: Airflow marks every DAG of a file with an import error as stale, watches included.

    :param folder: of the YAML files; relative to the file that calls this.
    :raises SpecError: names each file that cannot be used, with line and field; or the folder is not there.
    """
    errors = [error for error in load_specs(_place(folder)[0]) if isinstance(error, SpecError)]
    if errors:
        raise SpecError("\n".join(str(error) for error in errors))


def _place(folder: str | Path) -> tuple[Path, str]:
    """Return the folder, and the name that its watch goes by."""
    # The file that calls the caller of this; the lazy names of `airflow_stream_provider` add no frame of their own.
    caller = Path(str(sys._getframe(2).f_globals.get("__file__") or Path.cwd() / "streams"))
    # "." is named like the DAG file: the folder of a bundle is named after its version.
    name = Path(folder).name or caller.stem
    return caller.parent / folder, re.sub(r"[^A-Za-z0-9_.-]", "-", name)[:100]


def _one(wanted: str, path: Path, name: str, options: DagOptions) -> dict[str, DAG]:
    """Return the one DAG that a task's process needs; nothing when it is of another folder or of the user's own."""
    stream, verb = options.split(wanted) or ("", "")
    if verb == "watch":
        # Without a look at the folder: that it is gone is for the task to tell people.
        return {wanted: watch_dag(name, path, options, _WATCH_SECONDS)} if stream == name else {}
    try:
        file = find_file(path, stream) if verb in _MAKERS else None
    except SpecError:
        file = None
    found = _dags(file, options, name, verb) if file is not None else []
    return {dag.dag_id: dag for dag in found}


def _dags(file: StreamFile, options: DagOptions, folder: str, verb: str = "") -> list[DAG]:
    """Return the DAGs of one file; `verb`: only this one."""
    if file.spec is not None:
        return [make(file.spec, options) for name, make in _MAKERS.items() if verb in ("", name)]
    watch = options.dag_id(folder, "watch")
    makers: Mapping[str, Callable[[DagOptions], DAG]] = {
        "upgrade": partial(unusable_dag, file),
        # A running stream can be stopped, and an upgrade that has begun retires the old release, by the valid part of
        # the file.
        "operate": partial(operate_dag, file.known),
        "retire": partial(retire_dag, file.known),
        "revive": partial(revive_unusable_dag, file, watch=watch),
    }
    return [make(options) for name, make in makers.items() if verb in ("", name)]


def _seconds(files: Sequence[StreamFile]) -> float | None:
    """Return the seconds between two looks: as the stream says that is looked at most often."""
    if not files:
        return _WATCH_SECONDS
    said = [file.spec.watch.schedule if file.spec else _WATCH_SECONDS for file in files]
    return min((every for every in said if every is not None), default=None)
