"""Before and after what a person asks by the form of ``NAME__operate``: say what will happen, ask, and tell."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from typing_extensions import override

from airflow_stream_provider.notifications.upgrade import LINE
from airflow_stream_provider.runbook.question import QuestionOperator

if TYPE_CHECKING:
    from airflow_stream_provider.planning.foreseen import Foreseen
    from airflow_stream_provider.spec.stream import StreamSpec


class LookAheadOperator(BaseOperator):
    """Say what an operation by hand will do, and refuse what cannot be done, before anything is touched.

    :param stream: the stream, as read by `load_spec`.
    :param asked: the fields of the form: `operation`, `reason`, `confirmed_by` (the person by whose word a fence or an
        adoption goes), `job` (the cluster's id of the job that is to be adopted), `release` (hash of the stored release
        of a redeployment, or its first digits), `to` (since when records are read again; see `planning.rewind.moment`),
        `query` (which query reads them; empty: all). (templated)
    :param upgrade_dag_id: of the DAG that upgrades the stream: while a run of it is under way there is no second one.

    XCom: what `Foreseen.to_json` says, with `lines`, the `reason` for the history, `confirmed_by` and `job`.
    """

    template_fields: Sequence[str] = ("asked",)

    def __init__(self, *, stream: StreamSpec, asked: Mapping[str, str], upgrade_dag_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.asked = asked
        self.upgrade_dag_id = upgrade_dag_id

    @override
    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_stream_provider.hooks.failing import failing_without_retry
        from airflow_stream_provider.hooks.look_ahead import look_ahead
        from airflow_stream_provider.hooks.stream import StreamHook
        from airflow_stream_provider.operators.release import bundle_of
        from airflow_stream_provider.planning.operation import Operation, check_job, check_person, check_reason
        from airflow_stream_provider.planning.rewind import moment
        from airflow_stream_provider.spec.requested_release import RequestedRelease

        asked, operation = self.asked, Operation(self.asked["operation"])
        with failing_without_retry():
            reason, who = check_reason(asked["reason"]), check_person(asked["confirmed_by"])
            job, wanted = check_job(asked["job"]), None
            if operation.brings_up:
                wanted = RequestedRelease.of(self.stream, bundle=bundle_of(self.get_dag()))
            # The time of the trigger: a driver that has come to hold since, as when the run is cleared, is left alone.
            since = context["dag_run"].run_after.timestamp()
            found = look_ahead(
                StreamHook.of(self.stream),
                operation,
                wanted,
                digits=asked["release"],
                confirmed_by=who,
                since=since,
                job=job,
                # A duration counts from before the run was triggered, also when this is cleared.
                to=moment(asked["to"], since) if asked["to"] else None,
                query=asked["query"],
            )
            if Operation.UPGRADE in found.parts:
                found = self._unless_in_the_way(found, context)
        for line in found.lines:
            self.log.info("%s", line)
        if found.refused:
            raise AirflowFailException(f"{found.lines[0]} Refused, and nothing was touched: {found.refused}")
        more = {"lines": found.lines, "reason": reason, "confirmed_by": who, "job": job}
        return {**found.to_json(), **more}

    def _unless_in_the_way(self, found: Foreseen, context: Context) -> Foreseen:
        """Refuse an upgrade while another one is under way that this run has not started, and while it would wait."""
        ti, dag_id, states = context["ti"], self.upgrade_dag_id, ["queued", "running"]
        mine = ti.get_dr_count(dag_id=dag_id, run_ids=[upgrade_run(context["run_id"])], states=states)
        if ti.get_dr_count(dag_id=dag_id, states=states) > mine:
            return found.refuse(
                f"A run of {dag_id} is under way. Wait for its end, or end it: with `abort` as long as its release "
                "does not hold, else by marking that run as failed (what holds then stays). Then ask again."
            )
        if ti.get_dag(dag_id).is_paused:
            return found.refuse(f"The DAG {dag_id} is paused, and a run of it would wait. Unpause it; then ask again.")
        return found


def upgrade_run(run_id: str) -> str:
    """Return the id of the run of ``NAME__upgrade`` that a run of the form starts."""
    return f"operate__{run_id}"


class ConfirmOperator(QuestionOperator):
    """Ask a person whether it shall be done; the question shows holder, release and the records that are read again.

    Skipped when there is nothing to do. Fails when the answer is no, and when there is none within an hour.

    :param ask: ``True``; anything else: no person is asked. (templated)
    :param parts: what will be done, as a JSON list. (templated)
    """

    template_fields = (*QuestionOperator.template_fields, "ask", "parts")

    WITHOUT_A_YES = "nothing was done"

    def __init__(self, *, ask: str, parts: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ask = ask
        self.parts = parts

    @override
    def execute(self, context: Context) -> Any:
        if self.ask != "True":
            raise AirflowSkipException("The form says that nobody is to be asked.")
        if not json.loads(self.parts):
            raise AirflowSkipException("There is nothing to do.")
        return super().execute(context)


class TellOperator(BaseOperator):
    """Tell in one line the operation, its reason, its outcome, and the holder. XCom: that line, also as `line`.

    :param stream: the stream, as read by `load_spec`.
    """

    def __init__(self, *, stream: StreamSpec, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream

    @override
    def execute(self, context: Context) -> str:
        from airflow_stream_provider.hooks.stream import StreamHook
        from airflow_stream_provider.planning.foreseen import Foreseen
        from airflow_stream_provider.planning.operation import Operation
        from airflow_stream_provider.planning.outcome import told

        looked = context["ti"].xcom_pull(task_ids="look")
        foreseen = Foreseen.from_json(looked)
        pulled = {part: context["ti"].xcom_pull(task_ids=part.value) for part in foreseen.parts}
        results = {part: found for part, found in pulled.items() if found}
        if Operation.UPGRADE in foreseen.parts:
            # Not from the XCom: a task that was killed after it had triggered the run is skipped when it is retried.
            results[Operation.UPGRADE] = {"run": upgrade_run(context["run_id"])}
        hook = StreamHook.of(self.stream)
        holder = hook.observe(history=False).holder_sentence if hook.exists() else ""
        line = told(foreseen, looked["reason"], results, holder)
        if foreseen.parts and not results:
            line = f"Nothing was done: the task {foreseen.parts[0].value} was skipped, and its log says why. {holder}"
        self.log.info("%s", line)
        context["ti"].xcom_push(key=LINE, value=line)
        return line
