"""The note of a run: how an upgrade or an operation by hand ended, written by Airflow's scheduler when the run ends.

No task can write it: Airflow 3.3 gives tasks no way to their own run's note but the REST API, which needs a user's
credentials. Listeners of a plugin are called where the run's state is set, in the scheduler, or in the API server when
a person marks the run, and have the run itself. They read one XCom and no control log; what goes wrong is logged.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from airflow.listeners import hookimpl
from airflow.plugins_manager import AirflowPlugin

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from sqlalchemy.orm import Session

log = logging.getLogger(__name__)

# The tasks that leave the line, by the end of the DAG's id.
_LAST = {"__upgrade": "report", "__operate": "tell"}
# Where our line begins: what a person has written before it stays.
MARK = "Outcome: "
# Airflow stores no more.
MAX_NOTE = 1000


@hookimpl
def on_dag_run_success(dag_run: DagRun, msg: str) -> None:
    """Write the note of a run that has succeeded."""
    _write(dag_run)


@hookimpl
def on_dag_run_failed(dag_run: DagRun, msg: str) -> None:
    """Write the note of a run that has failed."""
    _write(dag_run)


def with_line(note: str | None, line: str) -> str:
    """Return a note with this line in place of the one of an earlier end of the run.

    :param note: as it is; None: there is none.
    :param line: empty: nothing is known of this end, and that of an earlier one is no more.
    """
    theirs = (note or "").partition(MARK)[0].rstrip()
    if not line:
        return theirs
    ours = f"{MARK}{' '.join(line.split())}"
    room = MAX_NOTE - len(ours)
    return (f"{theirs[: max(0, room - 1)]}\n{ours}" if theirs and room > 1 else ours)[:MAX_NOTE]


def _write(run: DagRun) -> None:
    task = next((task for end, task in _LAST.items() if run.dag_id.endswith(end)), "")
    if not task:
        return
    try:
        # Imported here: every process of Airflow imports plugins.
        from sqlalchemy.orm import object_session

        session = object_session(run)
        if session is None:  # as in `airflow dags test`, which shows no notes
            return
        line = _line(run, task, session)
        if line or MARK in (run.note or ""):
            run.note = with_line(run.note, line)
    except Exception:  # this runs where the scheduler sets the run's state, which a note must never hinder
        log.exception("The note of %s could not be written.", run.run_id)


def _line(run: DagRun, task: str, session: Session) -> str:
    """Return the task's note at this end of the run; empty when it did not run."""
    from airflow.models.xcom import XComModel
    from airflow.utils.state import TaskInstanceState
    from sqlalchemy import select

    from airflow_stream_provider.notifications.upgrade import LINE

    wanted = select(XComModel).where(
        XComModel.dag_id == run.dag_id,
        XComModel.run_id == run.run_id,
        XComModel.task_id == task,
        XComModel.key == LINE,
    )
    with session.no_autoflush:
        said = run.get_task_instance(task, session=session)
        if said is None or said.state not in (TaskInstanceState.SUCCESS, TaskInstanceState.FAILED):
            # The note that is there is of an earlier end: it goes only when the task runs again.
            return ""
        found = session.scalars(wanted).first()
    return str(XComModel.deserialize_value(found)) if found is not None else ""


class NotePlugin(AirflowPlugin):
    """Registers the listeners of this module."""

    name = "airflow_stream_provider_notes"
    listeners = [sys.modules[__name__]]  # noqa: RUF012 - Airflow's own form
