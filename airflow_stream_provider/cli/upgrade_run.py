"""Let Airflow carry out an upgrade that a command asks for: start a run of ``NAME__upgrade``, and follow it.

Not here, as the other commands: an upgrade may last for hours, asks people, watches the new release and takes it back,
and all of that has to go on when the command is cut off.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from airflow.api.common.trigger_dag import trigger_dag
from airflow.exceptions import DagRunAlreadyExists
from airflow.models import DagModel, DagRun
from airflow.sdk.exceptions import AirflowException
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, TaskInstanceState
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from airflow_stream_provider.cli.run_here import Exit, Ran
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError

_VERB = "upgrade"
_PACE_SECONDS = 2.0
# A scheduler takes up a run within seconds.
QUEUED_SECONDS = 300.0
_UNDER_WAY = (DagRunState.QUEUED, DagRunState.RUNNING)

Say = Callable[..., None]


@dataclass(frozen=True)
class UpgradeRun:
    """A run that is to be started, or that an earlier command of the same person has started.

    :param dag_id: of the DAG; empty when Airflow does not know it.
    :param who: the person.
    :param run_id: of the person's own run that is under way; empty: none is.
    :param next_id: the id of the run that is started: the same for all commands of this moment, so that only one of
        them starts it.
    :param problem: why no run can be started now, and what to do; empty: one can.
    """

    dag_id: str
    who: str
    run_id: str = ""
    problem: str = ""
    next_id: str = ""

    @classmethod
    def of(cls, stream: str, who: str, reason: str, digits: str, *, seq: int, rewinds: bool = False) -> UpgradeRun:
        """Return the run that is under way for this command, or whether one can be started.

        :param reason: that the person gives; empty: none yet, as for a dry run.
        :param digits: of the hash of a stored release; empty: the YAML's is asked for.
        :param seq: of the last record of the control log, a part of the name of a new run. Airflow gives the number of
            a run again once its runs were cleaned or its database is a new one, and a run that is called as an earlier
            one takes what that has deployed for its own.
        :param rewinds: whether the release that holds is to read records again.
        :raises StreamError: Airflow's database does not answer.
        """
        with _database() as session:
            dag, problem = _dag_of(stream, session)
            if dag is None:
                return cls("", who, problem=problem)
            # Before the runs that are under way: one that is started in between is seen there.
            last = session.scalar(select(func.max(DagRun.id)).where(DagRun.dag_id == dag.dag_id))
            under_way = select(DagRun).where(DagRun.dag_id == dag.dag_id, DagRun.state.in_(_UNDER_WAY))
            runs = list(session.scalars(under_way.order_by(DagRun.run_after)))
            found = cls(dag.dag_id, who, next_id=f"command__{seq}_{(last or 0) + 1}")
            if len(runs) == 1 and _same(runs[0], who, reason, digits, rewinds):
                return replace(found, run_id=runs[0].run_id)
            if runs:
                by = runs[0].triggering_user_name or runs[0].run_type
                problem = (
                    f"An upgrade of {stream} is under way already: run {runs[0].run_id} of {dag.dag_id}, by {by}. Wait "
                    "for its end, or end it: with `airflow streams abort` as long as its release does not hold, else "
                    "by marking that run as failed in Airflow (what holds then stays). Then ask again."
                )
            elif dag.is_paused:
                problem = (
                    f"The DAG {dag.dag_id} is paused, and a run of it would wait. Unpause it with `airflow dags "
                    f"unpause {dag.dag_id}`; then ask again."
                )
            return replace(found, problem=problem)

    def carry_out(self, hook: StreamHook, conf: Mapping[str, Any], say: Say) -> Ran:
        """Start the run, unless it is under way, and wait for its end.

        :param conf: what the form gets.
        :param say: takes a line of what goes on, and its values.
        :raises SpecError: the run cannot be started: another one was, a moment ago, or Airflow does not take it.
        :raises StreamError: Airflow's database does not answer, or the run was deleted meanwhile.
        """
        run_id = self.run_id or self._start(conf)
        say("Run %s of %s %s.", run_id, self.dag_id, "is under way" if self.run_id else "was started")
        began, shown = time.monotonic(), dict[str, str]()
        while True:
            state, tasks = self._look(run_id)
            for task, now in tasks.items():
                if now and shown.get(task) != now:
                    say("%s: %s.", task, now.replace("_", " "))
            shown = tasks
            if state not in _UNDER_WAY:
                return self._end(hook, run_id, state, tasks)
            if state == DagRunState.QUEUED and time.monotonic() > began + QUEUED_SECONDS:
                said = f"Airflow has not begun run {run_id} of {self.dag_id} for {QUEUED_SECONDS:.0f} s."
                return Ran(Exit.UNKNOWN, {"run": run_id, "state": state}, f"{said} See that its scheduler runs.")
            time.sleep(_PACE_SECONDS)

    def _start(self, conf: Mapping[str, Any]) -> str:
        with _database():
            try:
                trigger_dag(
                    self.dag_id,
                    run_id=self.next_id,
                    triggered_by=DagRunTriggeredByType.CLI,
                    triggering_user_name=self.who,
                    conf=dict(conf),
                )
            except (DagRunAlreadyExists, IntegrityError):
                self._check_mine(conf)
            except (AirflowException, ValueError) as error:
                raise SpecError(
                    f"Airflow does not start a run of {self.dag_id}: {str(error).rstrip('.')}.",
                    next_step="Nothing was done. Correct that; then give the command again.",
                ) from error
        return self.next_id

    def _check_mine(self, conf: Mapping[str, Any]) -> None:
        """Check that the run which another command has started a moment ago is what this one asks for."""
        with _database() as session:
            run = session.scalar(select(DagRun).where(DagRun.dag_id == self.dag_id, DagRun.run_id == self.next_id))
            by = "somebody" if run is None else run.triggering_user_name
            if run is None or by != self.who or dict(run.conf or {}) != conf:
                raise SpecError(
                    f"Run {self.next_id} of {self.dag_id} was started at this moment, by {by}, for something else.",
                    next_step="Nothing was done. Wait for its end; then ask again.",
                )

    def _look(self, run_id: str) -> tuple[str, dict[str, str]]:
        with _database() as session:
            run = session.scalar(select(DagRun).where(DagRun.dag_id == self.dag_id, DagRun.run_id == run_id))
            if run is None:
                raise StreamError(f"The run {run_id} of {self.dag_id} was deleted.", next_step="Look at the history.")
            tasks = run.get_task_instances(session=session)
            return str(run.state), {each.task_id: str(each.state or "") for each in tasks}

    def _end(self, hook: StreamHook, run_id: str, state: str, tasks: Mapping[str, str]) -> Ran:
        """Whether its release has come to hold, the control log says: a person's no is a success of the run, too."""
        snapshot = hook.observe()
        by = f"airflow:{self.dag_id}/{run_id}/"
        mine = {each.family for each in snapshot.state.wishes.values() if each.by.startswith(by)}
        brought = [each.id for each in snapshot.state.deployments.values() if each.family in mine]
        held = [name for name in brought if snapshot.state.has_held(name)]
        result = {"run": run_id, "dag": self.dag_id, "state": state, "deployment": brought[-1] if brought else ""}
        if state == DagRunState.SUCCESS and held:
            return Ran(Exit.DONE, result, "", snapshot)
        bad = ", ".join(task for task, each in tasks.items() if each == TaskInstanceState.FAILED)
        why = " ".join(snapshot.why_ended(name) for name in brought if snapshot.state.deployments[name].ended)
        how = f"failed ({bad})" if bad else "ended, and its release has not come to hold"
        said = f"Run {run_id} of {self.dag_id} {how}. {why} {snapshot.holder_sentence} The logs of its tasks say more."
        return Ran(Exit.FAILED, result, " ".join(said.split()), snapshot)


@contextmanager
def _database() -> Iterator[Any]:
    try:
        with create_session() as session:
            yield session
    except SQLAlchemyError as error:
        raise StreamError(
            f"Airflow's database does not answer ({type(error).__name__}).",
            next_step="See that it runs, and that this command has the configuration of Airflow's scheduler.",
        ) from error


def _same(run: DagRun, who: str, reason: str, digits: str, rewinds: bool) -> bool:
    conf = dict(run.conf or {})
    if bool(conf.get("rewind")) != rewinds:
        return False
    release = str(conf.get("release") or "")
    same_release = rewinds or (bool(release) == bool(digits) and release.startswith(digits.strip().lower()))
    return run.triggering_user_name == who and same_release and (not reason or conf.get("reason") == reason)


def _dag_of(stream: str, session: Any) -> tuple[DagModel | None, str]:
    """Return the DAG that upgrades a stream, whatever prefix its folder gives its DAGs; or why there is none."""
    name = f"{stream}__{_VERB}"
    known = select(DagModel).where(DagModel.dag_id.endswith(name, autoescape=True), ~DagModel.is_stale)
    found: list[DagModel] = list(session.scalars(known))
    # Another stream's name may end as this one's. Two folders with a stream of this name are equal: the DAG without a
    # prefix may be the other one's.
    chosen = [dag for dag in found if {"stream", stream} <= {tag.name for tag in dag.tags}]
    if len(chosen) == 1:
        return chosen[0], ""
    if not chosen:
        return None, (
            f"Airflow knows no DAG {name}. See that its DAG processor has read the DAG file that calls stream_dags, "
            "and that this command has the configuration of that Airflow."
        )
    names = ", ".join(sorted(dag.dag_id for dag in chosen))
    return None, f"Several DAGs upgrade a stream {stream}: {names}. Trigger the right one in Airflow."
