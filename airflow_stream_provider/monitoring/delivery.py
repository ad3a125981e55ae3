"""Deliver alerts to their recipients, all at the same time, and keep who was told."""

from __future__ import annotations

import copy
import logging
import time
import zlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import BaseNotifier

from airflow_stream_provider.control.bounded import gather
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.monitoring.alert import Alert, pending_alerts
from airflow_stream_provider.monitoring.incidents import IncidentKind, IncidentState
from airflow_stream_provider.monitoring.recipients import ImportedRecipient, named
from airflow_stream_provider.spec.configured import delivery_seconds

if TYPE_CHECKING:
    from airflow_stream_provider.spec.stream import StreamSpec

log = logging.getLogger(__name__)

# Alerts that one recipient is given side by side, each of another stream, and recipients served at the same time.
SHARES = 4
WIDTH = 64


def deliver(
    alert: Alert, recipients: Mapping[str, Any], context: Mapping[str, Any], seconds: float | None = None
) -> set[str]:
    """Deliver an alert to all recipients; return the names of those that took it in time. See `deliver_all`.

    :param seconds: default: `delivery_seconds`.
    """
    return deliver_all([(alert, recipients)], context, seconds or delivery_seconds())[0]


def deliver_all(
    letters: Sequence[tuple[Alert, Mapping[str, Any]]], context: Mapping[str, Any], seconds: float
) -> list[set[str]]:
    """Deliver many alerts, all recipients at the same time; return for each the names of those that took it in time.

    A recipient gets the alerts of one stream in the given order: one that missed the end of an incident does not get
    the opening of the next one. The log names the recipients that got nothing, with the type of their error only: its
    text may hold the address of a webhook, which is a secret. One that is late may still get the alert, and gets it
    again at the next look.

    :param letters: each alert with those who are to get it, by name; see `recipients.named`. The templates of a
        notifier find it as `alert`.
    :param seconds: for all letters together.
    """
    until = time.monotonic() + seconds
    delivered: list[set[str]] = [set() for _ in letters]
    lanes: dict[tuple[str, int], deque[tuple[int, str]]] = {}
    for number, (alert, recipients) in enumerate(letters):
        for name in recipients:
            share = zlib.crc32(alert.stream.encode()) % SHARES
            lanes.setdefault((name, share), deque()).append((number, name))

    def give(lane: deque[tuple[int, str]]) -> None:
        missed: set[tuple[str, str]] = set()
        while lane and time.monotonic() < until:
            number, name = lane[0]
            alert, recipients = letters[number]
            error: Exception | None = None
            try:
                if (alert.stream, alert.kind) not in missed:
                    _give(recipients[name], alert, context)
            except Exception as raised:  # noqa: BLE001 - a notifier may raise anything
                error = raised
            if time.monotonic() >= until:
                return  # which is said below
            lane.popleft()
            if error is not None:
                missed.add((alert.stream, alert.kind))
                _failed(alert, name, error)
            elif (alert.stream, alert.kind) not in missed:
                delivered[number].add(name)

    gather({key: partial(give, lane) for key, lane in lanes.items()}, seconds, width=WIDTH, most=WIDTH * SHARES)
    for left in filter(None, [lane.copy() for lane in lanes.values()]):
        number, name = left[0]
        _failed(letters[number][0], name, TimeoutError())
        if len(left) > 1:
            log.error("Nor could %d other alerts be delivered to %s in time.", len(left) - 1, name)
    # Nothing counts as delivered after this.
    return [set(each) for each in delivered]


def _give(each: Any, alert: Alert, context: Mapping[str, Any]) -> None:
    found = each.load() if isinstance(each, ImportedRecipient) else each
    if isinstance(found, BaseNotifier):
        # A copy, as rendering replaces its templates. Calling the notifier itself would swallow its error.
        notifier, known = copy.copy(found), cast("Any", {**context, "alert": alert})
        notifier.render_template_fields(known)
        notifier.notify(known)
    else:
        found(alert)


def _failed(alert: Alert, name: str, error: BaseException) -> None:
    # Our own errors are written to be read; see `recipients.recipient`.
    says = str(error) if isinstance(error, StreamError) else f"{type(error).__name__}."
    log.error("The alert %s could not be delivered to %s: %s", alert.incident, name, says)


@dataclass
class Told:
    """The incidents of one subject, and who is told of them.

    :param subject: what alerts are about; see `Alert.stream`.
    :param incidents: by kind; afterwards with what was delivered.
    :param at: time of the look, seconds since 1970.
    :param recipients: by what is equal at every look; see `recipients_of`.
    """

    subject: str
    incidents: Mapping[str, IncidentState]
    at: float
    recipients: Mapping[str, Any]


def tell(
    all_told: Sequence[Told],
    context: Mapping[str, Any],
    complete: Callable[[Sequence[Alert]], Sequence[Alert]] = lambda alerts: alerts,
) -> None:
    """Send what is due; each `Told` says afterwards who got it.

    :param context: of the task, for the templates of notifiers.
    :param complete: returns the alerts with what is worth finding out only for those that are sent.
    """
    due = [
        (told, alert, {name: told.recipients[name] for name in names})
        for told in all_told
        for alert, names in pending_alerts(told.subject, told.incidents, told.at, told.recipients)
    ]
    alerts = complete([alert for _, alert, _ in due])
    letters = [(alert, recipients) for alert, (_, _, recipients) in zip(alerts, due, strict=True)]
    for (told, alert, _), delivered in zip(due, deliver_all(letters, context, delivery_seconds()), strict=True):
        state = told.incidents[alert.kind].acknowledge(delivered, open=alert.open)
        told.incidents = {**told.incidents, alert.kind: state}


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
