"""Notifiers that tell people how an upgrade or a roll-back ended, and that an upgrade waits for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier, Context

from airflow_stream_provider.lifecycle.errors import StreamError

if TYPE_CHECKING:
    from airflow_stream_provider.spec.stream import StreamSpec

# XCom of a task: in one line, how what it is the end of went.
LINE = "line"


class UpgradeNotifier(BaseNotifier):
    """Tell people how an upgrade or a roll-back ended: what was done, or the error of the task that failed.

    For `on_success_callback` and `on_failure_callback` of the last task of an upgrade's DAG, which fails when the new
    release did not take over or did not stay, and of a roll-back's task. The alert is of the kind `upgrade`, `open`
    when it failed; it is sent once for a run and is never over. Airflow logs the recipients that were not reached; the
    task's state stays as it is.

    :param stream: the stream, as read by `load_spec`.
    :param to: recipients: notifiers of Airflow, in whose templates `alert` is an Alert, or functions that take one;
        default: the YAML's `notify`.
    """

    def __init__(self, *, stream: StreamSpec, to: Sequence[Any] | None = None, context: Context | None = None) -> None:
        super().__init__(context=context)
        self.stream = stream
        self.to = to

    def notify(self, context: Context) -> None:
        """Send the alert.

        :raises StreamError: somebody was not reached.
        """
        error = context.get("exception")
        line = str(error) if error else self.line(context)
        self.tell(context, line or "It has failed; the tasks of the run say why.", to_act=bool(error) or not line)

    def line(self, context: Context) -> str:
        """Return the report of a task that ended well; empty when it has none."""
        from airflow_stream_provider.planning.outcome import rolled_back

        ti: Any = context["ti"]
        said = ti.xcom_pull(task_ids=ti.task_id, key=LINE)
        handed = None if said else ti.xcom_pull(task_ids=ti.task_id)
        return str(said or (rolled_back(handed) if handed else ""))

    def tell(self, context: Context, line: str, *, to_act: bool, links: Mapping[str, str] | None = None) -> None:
        """Send an alert.

        :raises StreamError: somebody was not reached.
        """
        # Imported here: a DAG file that is parsed needs no notifiers.
        from airflow_stream_provider.monitoring.delivery import tell_outcome

        run = str(context["ti"].run_id)
        missed = tell_outcome(self.stream, run, line, context, to_act=to_act, to=self.to, links=links)
        if missed:
            raise StreamError(
                f"What is told of {run} could not be delivered to {', '.join(missed)}.",
                next_step="The log above says why.",
            )


class ApprovalNotifier(UpgradeNotifier):
    """Tell people that an upgrade waits for a yes, until when, and where to answer.

    For `notifiers` of ApproveUpgradeOperator. The alert is of the kind `upgrade`, with the incident of the outcome.
    """

    def notify(self, context: Context) -> None:
        """Send the alert.

        :raises StreamError: somebody was not reached.
        """
        task: Any = context["task"]
        links = {}
        try:
            links["Answer"] = task.generate_link_to_ui_from_context(context=context)
        except ValueError:
            self.log.info("The address of Airflow's pages is not known here ([api] base_url).")
        within = f" within {task.response_timeout}" if task.response_timeout else ""
        self.tell(context, f"An upgrade waits for a yes. {task.subject} Answer{within}.", to_act=True, links=links)
