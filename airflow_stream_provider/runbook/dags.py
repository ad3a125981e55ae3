"""The DAGs of a folder of streams."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, get_parsing_context

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.runbook.form import DagOptions
from airflow_stream_provider.runbook.operate import operate_dag, trial_dag
from airflow_stream_provider.runbook.upgrade import retire_dag, upgrade_dag
from airflow_stream_provider.runbook.watch import revive_dag, watch_dag
from airflow_stream_provider.spec.configured import watch_seconds
from airflow_stream_provider.spec.folder import find_spec, load_specs
from airflow_stream_provider.spec.stream import StreamSpec

_MAKERS = {"upgrade": upgrade_dag, "operate": operate_dag, "retire": retire_dag, "trial": trial_dag}


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

    They are ``NAME__upgrade``, ``NAME__operate``, ``NAME__retire`` and ``NAME__trial`` of each stream, and
    ``FOLDER__watch`` and ``FOLDER__revive`` of all of them. In a task's process only the DAG of that task is built, and
    only the YAML file that it needs is read: the start of a task does not grow with the number of streams, as long as
    files are named like their streams.

    A file that cannot be used has no DAGs of its own until it is mended, and does not remove those of other streams:
    its stream runs on, and is watched and brought back as it was declared last. `check_stream_dags` makes an import
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
        specs = load_specs(path)
    except SpecError:
        specs = []
    found = [make(spec, options) for spec in specs if isinstance(spec, StreamSpec) for make in _MAKERS.values()]
    found += [watch_dag(name, path, options, _seconds(specs)), revive_dag(name, options)]
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
    subject, verb = options.split(wanted) or ("", "")
    if subject == name and verb == "watch":
        # Without a look at the folder: that it is gone is for the task to tell people.
        return {wanted: watch_dag(name, path, options, watch_seconds())}
    if subject == name and verb == "revive":
        return {wanted: revive_dag(name, options)}
    try:
        spec = find_spec(path, subject) if verb in _MAKERS else None
    except SpecError:
        spec = None
    return {wanted: _MAKERS[verb](spec, options)} if spec is not None else {}


def _seconds(specs: Sequence[StreamSpec | SpecError]) -> float | None:
    """Return the seconds between two looks: as the stream says that is looked at most often."""
    if not specs:
        return watch_seconds()
    said = [each.watch.schedule if isinstance(each, StreamSpec) else watch_seconds() for each in specs]
    return min((every for every in said if every is not None), default=None)
