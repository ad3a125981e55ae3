"""Tell people how an upgrade or a roll-back ended, or that it waits for one of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.monitoring.alert import Alert
from airflow_stream_provider.monitoring.delivery import deliver
from airflow_stream_provider.monitoring.incidents import IncidentKind
from airflow_stream_provider.monitoring.recipients import ImportedRecipient, named

if TYPE_CHECKING:
    from airflow_stream_provider.spec.stream import StreamSpec

log = logging.getLogger(__name__)


def tell_outcome(
    spec: StreamSpec,
    run: str,
    line: str,
    context: Mapping[str, Any],
    *,
    to_act: bool,
    to: Sequence[Any] | None = None,
    links: Mapping[str, str] | None = None,
) -> list[str]:
    """Send an alert of the kind `upgrade` to everybody at the same time; return the names of those not reached.

    :param run: what the alert's incident is named by, so that all that is told of one run is one incident.
    :param line: what is told; one or a few sentences.
    :param context: of the task, for the templates of notifiers.
    :param to_act: whether somebody has to do something: the alert is `open` then.
    :param to: recipients; default: the YAML's `notify`.
    :param links: web addresses by label.
    """
    in_yaml = [ImportedRecipient(each.call, each.arguments) for each in spec.notify]
    recipients, now = named(in_yaml if to is None else to), time.time()
    incident = f"{spec.name}-upgrade-{run}"
    alert = Alert(spec.name, IncidentKind.UPGRADE, incident, to_act, now, now, (line,), links=links or {})
    log.log(logging.WARNING if to_act else logging.INFO, "%s\n%s", alert.subject, alert.text)
    return sorted(recipients.keys() - deliver(alert, recipients, context))
