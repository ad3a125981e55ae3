"""A process with Airflow in it that runs DAGs by `dag.test()`, one command (a line of JSON) after the other.

A process of its own, because Airflow reads its settings when it is first imported; and one for many tests, because that
import takes long. Triggers run inline, tasks in this process: everything else is as in production.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

HERE = Path(__file__).parent


def run(command: dict[str, Any]) -> dict[str, Any]:
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from airflow.utils.state import TaskInstanceState
    from sqlalchemy import select, update

    from airflow_stream_provider import stream_dags
    from tests.support.by_hand import by_hand_dags

    if not hasattr(TaskInstanceState, "AWAITING_INPUT"):
        keep_all_dags()
    folder = Path(os.environ["AIRFLOW__CORE__DAGS_FOLDER"]) / "streams"
    dag = {**stream_dags(folder), **by_hand_dags(folder)}[command["dag"]]
    for task in dag.tasks:
        task.retry_delay = task.retry_delay * 0
    with create_session() as session:
        session.execute(update(DagModel).values(is_paused=False))  # as a person has done with each new DAG
    with crashing(command.get("crash")), answering(dag, command.get("answer", "")):
        logical = datetime.fromisoformat(command["logical_date"])
        # The run's id is made of `run_after`: the same date again is the same run, cleared.
        made = dag.test(logical_date=logical, run_after=logical, run_conf=command.get("conf") or {})
    with create_session() as session:
        found = session.scalar(select(DagRun).where(DagRun.dag_id == dag.dag_id, DagRun.run_id == made.run_id))
        assert found is not None
        states = {ti.task_id: str(ti.state) for ti in found.get_task_instances(session=session)}
        tries = {ti.task_id: ti.try_number for ti in found.get_task_instances(session=session)}
        rows = session.scalars(select(XComModel).where(XComModel.run_id == made.run_id, XComModel.dag_id == dag.dag_id))
        xcoms: dict[str, dict[str, Any]] = {}
        for row in rows:
            xcoms.setdefault(row.task_id, {})[row.key] = XComModel.deserialize_value(row)
        others = session.scalars(select(DagRun).where(DagRun.dag_id != dag.dag_id)).all()
        queued = [
            {"dag": r.dag_id, "state": str(r.state), "conf": r.conf, "at": r.run_after.timestamp()} for r in others
        ]
        # No scheduler takes them up: the test runs that DAG itself, as `World.watch` does.
        for each in others:
            if each.dag_id.endswith(("__revive", "__upgrade")) and str(each.state) == "queued":
                session.delete(each)
        return {"state": str(found.state), "states": states, "tries": tries, "xcoms": xcoms, "other_runs": queued}


def keep_all_dags() -> None:
    """Let the database have every DAG, as in production. `dag.test()` does it from Airflow 3.3 on."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db

    untyped: Any = DagBundlesManager
    manager = untyped()
    manager.sync_bundles_to_db()
    for bundle in manager.get_all_dag_bundles():
        bundle.initialize()
        bag = BundleDagBag(dag_folder=bundle.path, bundle_path=bundle.path, bundle_name=bundle.name)
        sync_bag_to_db(bag, bundle.name, bundle.version)


@contextmanager
def answering(dag: Any, answer: str) -> Iterator[None]:
    """Answer what the run asks: Approve or Reject as the API server does.

    `cancel` marks the run as failed meanwhile, as a person does in the UI.
    """
    from airflow.api.common.mark_tasks import set_dag_run_state_to_failed
    from airflow.models.hitl import HITLDetail
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.trigger import handle_event_submit
    from airflow.sdk.timezone import utcnow
    from airflow.serialization.serialized_objects import DagSerialization
    from airflow.triggers.base import TriggerEvent
    from airflow.utils.session import create_session
    from airflow.utils.state import TaskInstanceState
    from sqlalchemy import select

    ended = threading.Event()
    parked = getattr(TaskInstanceState, "AWAITING_INPUT", "")  # Airflow 3.2 defers
    untyped: Any = TriggerEvent

    def answer_all() -> None:
        waiting = select(TaskInstance).where(
            TaskInstance.dag_id == dag.dag_id,
            TaskInstance.state.in_((parked, TaskInstanceState.DEFERRED)),
        )
        while not ended.wait(0.2):
            with create_session() as session:
                for ti in session.scalars(waiting).all():
                    detail = session.get(HITLDetail, ti.id)
                    if detail is None or detail.responded_at is not None:
                        continue
                    if answer == "cancel":
                        known = DagSerialization.from_dict(DagSerialization.to_dict(dag))
                        set_dag_run_state_to_failed(dag=known, run_id=ti.run_id, commit=True, session=session)
                        continue
                    detail.chosen_options, detail.params_input = [answer], {}
                    detail.responded_at, detail.responded_by = utcnow(), {"id": "anna", "name": "anna"}
                    if ti.state == parked:
                        event = detail.as_resume_event_payload()
                        handle_event_submit(untyped(event), task_instance=ti, session=session)

    thread = threading.Thread(target=answer_all, daemon=True)
    if answer:
        thread.start()
    try:
        with approvals_as_in_a_triggerer():
            yield
    finally:
        ended.set()
        if answer:
            thread.join(60)


@contextmanager
def approvals_as_in_a_triggerer() -> Iterator[None]:
    """Let triggers that wait for an answer do what `dag.test` has no part for.

    They may ask whether there is an answer, and they end when their task is marked as failed meanwhile.
    """
    from airflow.models.hitl import HITLDetail
    from airflow.models.taskinstance import TaskInstance
    from airflow.providers.standard.triggers import hitl
    from airflow.sdk.definitions import dag as running
    from airflow.utils.session import create_session
    from airflow.utils.state import TaskInstanceState
    from sqlalchemy import select

    from airflow_stream_provider.triggers.stream import ApprovalTrigger

    modules: Any = hitl
    dags: Any = running
    originals = modules.get_hitl_detail_content_detail, dags._run_inline_trigger

    def answer_to(ti_id: Any) -> Any:
        with create_session() as session:
            detail = session.get(HITLDetail, ti_id)
            assert detail is not None
            by = detail.responded_by
            return SimpleNamespace(
                response_received=detail.response_received,
                chosen_options=detail.chosen_options,
                params_input=detail.params_input,
                responded_at=detail.responded_at,
                responded_by_user=SimpleNamespace(**by) if by else None,
            )

    def state_of(ti: Any, new: TaskInstanceState | None = None) -> str:
        with create_session() as session:
            found = session.scalar(select(TaskInstance).where(TaskInstance.id == ti.id))
            assert found is not None
            if new is not None:
                found.state = new
            return str(found.state)

    def run_in_line(trigger: Any, ti: Any) -> Any:
        if not isinstance(trigger, ApprovalTrigger):
            return originals[1](trigger, ti)
        state_of(ti, TaskInstanceState.DEFERRED)

        async def until_marked() -> AsyncIterator[Any]:
            event = asyncio.ensure_future(anext(trigger.run()))
            try:
                while not event.done():
                    await asyncio.wait({event}, timeout=0.2)
                    if state_of(ti) != "deferred":
                        raise RuntimeError("its task was marked as failed")
            finally:
                # Not a moment longer: what a trigger has of Airflow's is that of the process, and the next task's.
                event.cancel()
                await asyncio.gather(event, return_exceptions=True)
            yield event.result()

        return originals[1](SimpleNamespace(run=until_marked), ti)

    modules.get_hitl_detail_content_detail = answer_to
    dags._run_inline_trigger = run_in_line
    try:
        yield
    finally:
        modules.get_hitl_detail_content_detail, dags._run_inline_trigger = originals


@contextmanager
def crashing(plan: dict[str, Any] | None) -> Iterator[None]:
    """Let the n-th acting call of the hook be the last thing that a try does: before or after it took effect."""
    from airflow_stream_provider.hooks.stream import StreamHook

    calls = 0
    originals = {name: getattr(StreamHook, name) for name in ("append", "submit", "kill")}

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if plan and calls == plan["call"] and plan["when"] == "before":
                raise RuntimeError("the worker is gone")
            result = original(*args, **kwargs)
            if plan and calls == plan["call"]:
                raise RuntimeError("the worker is gone")
            return result

        return call

    for name, original in originals.items():
        setattr(StreamHook, name, wrap(original))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(StreamHook, name, original)


def without_spark() -> None:
    """Let `spark-submit` be the driver without Spark; the rest of the local cluster is the real one."""
    from airflow_stream_provider.clusters import processes

    processes.home = lambda: HERE / "spark_home"
    processes.check_java = lambda: None


def main() -> None:
    if len(sys.argv) > 1:  # the words of Airflow's own command line
        from airflow import __main__ as airflow

        command_line: Any = airflow.main
        without_spark()
        command_line()
        return
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what tasks print goes to the log
    without_spark()
    for line in sys.stdin:
        try:
            answer = run(json.loads(line))
        except Exception:  # noqa: BLE001 - the test shows it
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer, default=str), file=answers, flush=True)


if __name__ == "__main__":
    main()
