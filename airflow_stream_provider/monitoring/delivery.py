"""Deliver alerts to their recipients, all at the same time, with one time-out for all."""

from __future__ import annotations

import asyncio
import copy
import logging
import threading
import time
import zlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow.sdk import BaseNotifier

from airflow_stream_provider.control.bounded import gather, start
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.monitoring.alert import Alert
from airflow_stream_provider.monitoring.recipients import ImportedRecipient, identity

log = logging.getLogger(__name__)

# Until then a recipient must have taken an alert. One that hangs keeps neither the others nor the watch.
DELIVERY_SECONDS = 30.0
# Alerts that one recipient is given side by side, each of another stream, and recipients served at the same time.
SHARES = 4
WIDTH = 64


@dataclass(frozen=True)
class Letter:
    """An alert and who is to get it, by name; see `recipients.named`."""

    alert: Alert
    recipients: Mapping[str, Any]


def deliver(
    alert: Alert, recipients: Mapping[str, Any], context: Mapping[str, Any], seconds: float = DELIVERY_SECONDS
) -> set[str]:
    """Deliver an alert to all recipients; return the names of those that took it in time. See `deliver_all`."""
    return deliver_all([Letter(alert, recipients)], context, seconds)[0]


def deliver_all(letters: Sequence[Letter], context: Mapping[str, Any], seconds: float) -> list[set[str]]:
    """Deliver many alerts, all recipients at the same time; return for each the names of those that took it in time.

    A recipient gets the alerts of one stream in the given order: one that missed the end of an incident does not get
    the opening of the next one. The log names the recipients that got nothing, with the type of their error only: its
    text may hold the address of a webhook, which is a secret. One that is late may still get the alert, and gets it
    again at the next look.

    :param letters: the templates of a notifier find each one's alert as `alert`.
    :param seconds: for all letters together.
    """
    until = time.monotonic() + seconds
    delivered: list[set[str]] = [set() for _ in letters]
    lanes: dict[tuple[str, int], _Lane] = {}
    for number, letter in enumerate(letters):
        for name, each in letter.recipients.items():
            share = zlib.crc32(letter.alert.stream.encode()) % SHARES
            lanes.setdefault((identity(each), share), _Lane(until)).add(number, letter.alert, name, each)

    def give(lane: _Lane) -> None:
        lane.run(context, delivered)

    gather({key: partial(give, lane) for key, lane in lanes.items()}, seconds, width=WIDTH, most=WIDTH * SHARES)
    for lane in lanes.values():
        lane.end()
    return [set(each) for each in delivered]


class _Lane:
    """The alerts that one recipient gets, one after another."""

    def __init__(self, until: float) -> None:
        self._until = until
        self._queue: deque[tuple[int, Alert, str, Any]] = deque()
        self._lock = threading.Lock()
        self._missed: set[tuple[str, str]] = set()

    def add(self, number: int, alert: Alert, name: str, recipient: Any) -> None:
        """Add a letter's alert."""
        self._queue.append((number, alert, name, recipient))

    def run(self, context: Mapping[str, Any], delivered: Sequence[set[str]]) -> None:
        """Give all alerts until the time is over."""
        while time.monotonic() < self._until and self._queue:
            number, alert, name, recipient = self._queue[0]
            error: Exception | None = None
            try:
                if (alert.stream, alert.kind) not in self._missed:
                    _give(recipient, alert, context)
            except Exception as raised:  # noqa: BLE001 - a notifier may raise anything
                error = raised
            with self._lock:
                if time.monotonic() >= self._until or not self._queue:
                    return  # `end` has said so
                self._queue.popleft()
            if error is not None:
                self._missed.add((alert.stream, alert.kind))
                _failed(alert, name, error)
            elif (alert.stream, alert.kind) not in self._missed:
                delivered[number].add(name)

    def end(self) -> None:
        """Log what was not taken in time; nothing counts as delivered after this."""
        with self._lock:
            left, self._queue = list(self._queue), deque()
        if left:
            _, alert, name, _ = left[0]
            _failed(alert, name, TimeoutError())
        if len(left) > 1:
            log.error("Nor could %d other alerts be delivered to %s in time.", len(left) - 1, left[0][2])


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
            await asyncio.wrap_future(start(partial(found, alert), f"alert {alert.incident}"))

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
