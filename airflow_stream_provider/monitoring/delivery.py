"""Deliver an alert to its recipients, all at the same time, with a time-out."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import logging
import queue
import threading
import time
from collections.abc import Mapping
from typing import Any

from airflow.sdk import BaseNotifier

from airflow_stream_provider.control.daemon_thread import in_daemon_thread
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.monitoring.alert import Alert
from airflow_stream_provider.monitoring.recipients import ImportedRecipient

log = logging.getLogger(__name__)

# Until then a recipient must have taken an alert. One that hangs keeps neither the others nor the watch.
DELIVERY_SECONDS = 30.0


def deliver(
    alert: Alert, recipients: Mapping[str, Any], context: Mapping[str, Any], seconds: float = DELIVERY_SECONDS
) -> set[str]:
    """Deliver an alert to all recipients; return the names of those that took it in time.

    The log names the others, with the type of their error only: its text may hold the address of a webhook, which is
    a secret. One that is late may still get the alert, and gets it again at the next look.

    :param recipients: by name; see `recipients.named`. Templates of a notifier find the alert as `alert`.
    """
    answers: queue.Queue[tuple[str, Exception | None]] = queue.Queue()

    def give(name: str, each: Any) -> None:
        try:
            _give(each, alert, context)
        except Exception as error:  # noqa: BLE001 - a notifier may raise anything
            answers.put((name, error))
        else:
            answers.put((name, None))

    for name, each in recipients.items():
        # Daemons: a task ends though a recipient hangs.
        run = contextvars.copy_context().run
        threading.Thread(target=run, args=(give, name, each), name=f"alert {name}", daemon=True).start()
    deadline = time.monotonic() + seconds
    missing, delivered = set(recipients), set()
    while missing:
        try:
            name, error = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        missing.remove(name)
        if error is None:
            delivered.add(name)
        else:
            _failed(alert, name, error)
    for name in sorted(missing):
        _failed(alert, name, TimeoutError())
    return delivered


async def deliver_async(
    alert: Alert, recipients: Mapping[str, Any], context: Mapping[str, Any], seconds: float = DELIVERY_SECONDS
) -> set[str]:
    """Do the same as `deliver` in an event loop: by a notifier's `async_notify`, and a function in a daemon thread."""

    async def give(each: Any) -> None:
        found = each.load() if isinstance(each, ImportedRecipient) else each
        if isinstance(found, BaseNotifier):
            notifier, known = _prepared(found, alert, context)
            notifier.context = known
            await notifier
        else:
            await in_daemon_thread(f"alert {alert.incident}", found, alert)

    waits = (asyncio.wait_for(give(each), seconds) for each in recipients.values())
    results = await asyncio.gather(*waits, return_exceptions=True)
    failed = {name: error for name, error in zip(recipients, results, strict=True) if error is not None}
    for name, error in failed.items():
        _failed(alert, name, error)
    return set(recipients) - set(failed)


def _give(each: Any, alert: Alert, context: Mapping[str, Any]) -> None:
    found = each.load() if isinstance(each, ImportedRecipient) else each
    if isinstance(found, BaseNotifier):
        notifier, known = _prepared(found, alert, context)
        # Calling the notifier itself would swallow its error.
        notifier.render_template_fields(known)
        notifier.notify(known)
    else:
        found(alert)


def _failed(alert: Alert, name: str, error: BaseException) -> None:
    # Our own errors are written to be read; see `recipients.recipient`.
    says = str(error) if isinstance(error, StreamError) else f"{type(error).__name__}."
    log.error("The alert %s could not be delivered to %s: %s", alert.incident, name, says)


def _prepared(notifier: BaseNotifier, alert: Alert, context: Mapping[str, Any]) -> tuple[Any, Any]:
    """A copy of the notifier, as rendering replaces its templates, and the context with the alert."""
    return copy.copy(notifier), {**context, "alert": alert}
