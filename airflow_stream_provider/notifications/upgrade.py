"""A notifier that tells people that an upgrade has failed or was rolled back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier, Context

from airflow_stream_provider.lifecycle.errors import StreamError

if TYPE_CHECKING:
    from airflow_stream_provider.monitoring.alert import Alert
    from airflow_stream_provider.spec.stream import StreamSpec


class UpgradeNotifier(BaseNotifier):
    """Tell people how an upgrade ended, with the error of the task that failed.

    For `on_failure_callback` of the last task of an upgrade's DAG, which fails when the new release did not take over
    or did not stay. The alert is of the kind `upgrade`; it is sent once for a run and is never over.

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

        :raises StreamError: somebody was not reached; Airflow logs it.
        """
        # Imported here: a DAG file that is parsed needs no notifiers.
        from airflow_stream_provider.monitoring.delivery import deliver
        from airflow_stream_provider.monitoring.recipients import ImportedRecipient, named

        in_yaml = [ImportedRecipient(each.call, each.arguments) for each in self.stream.notify]
        to = named(in_yaml if self.to is None else self.to)
        alert = self._alert(context)
        self.log.warning("%s\n%s", alert.subject, alert.text)
        missed = to.keys() - deliver(alert, to, context)
        if missed:
            names = ", ".join(sorted(missed))
            raise StreamError(
                f"The alert {alert.incident} could not be delivered to {names}.", next_step="The log above says why."
            )

    def _alert(self, context: Context) -> Alert:
        from airflow_stream_provider.monitoring.alert import Alert
        from airflow_stream_provider.monitoring.incidents import IncidentKind

        name, run = self.stream.name, context["ti"].run_id
        reason = str(context.get("exception") or "The upgrade has failed.")
        now = time.time()
        return Alert(name, IncidentKind.UPGRADE, f"{name}-upgrade-{run}", True, now, now, (reason,))
