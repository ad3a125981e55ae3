"""Deliver an alert to its recipients: notifiers of Airflow, and functions that take an alert."""

from __future__ import annotations

import asyncio
import copy
import importlib
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from airflow.sdk import BaseNotifier

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.monitoring.alert import Alert

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ImportedRecipient:
    """A recipient that is named by its dotted path and imported only when an alert is delivered.

    So one that cannot be imported misses its alerts, and does not stop the watch.
    """

    path: str
    # May hold a password, and a dataclass shows its fields.
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def load(self) -> Any:
        """Return the notifier or function; see `recipient`."""
        return recipient(self.path, self.arguments)


def recipient(path: str, arguments: Mapping[str, Any]) -> Any:
    """Import a recipient: a class of notifiers, which is instantiated, or a function that takes an alert.

    :param path: dotted, such as ``airflow.providers.smtp.notifications.smtp.SmtpNotifier``.
    :param arguments: of the notifier, or of the function besides the alert.
    :raises SpecError: it cannot be imported, or does not accept these arguments.
    """
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise SpecError(
            f"`notify` names {path}, which cannot be imported: {error}.",
            next_step="Install its package on the workers, or correct the name.",
            path=path,
        ) from error
    if isinstance(found, type) and issubclass(found, BaseNotifier):
        try:
            return found(**arguments)
        except TypeError as error:
            raise SpecError(
                f"`notify` names {path}: {error}.", next_step="Correct its arguments.", path=path
            ) from error
        except Exception as error:  # noqa: BLE001 - a notifier may raise anything, and its text may quote an argument
            refused = f"`notify` names {path}, which cannot be instantiated: {type(error).__name__}."
            raise SpecError(refused, next_step="Correct its arguments.", path=path) from None
    if not callable(found):
        raise SpecError(
            f"`notify` names {path}, which is neither a notifier nor a function.",
            next_step="Correct the name.",
            path=path,
        )
    return partial(found, **arguments)


def named(recipients: Iterable[Any]) -> dict[str, Any]:
    """Return the recipients by a name that is unique and shows nothing of their arguments.

    :param recipients: notifiers, functions that take an alert, or ImportedRecipients.
    """
    found: dict[str, Any] = {}
    seen: Counter[str] = Counter()
    for each in recipients:
        what = each.func if isinstance(each, partial) else each
        if isinstance(what, ImportedRecipient):
            name = what.path
        else:
            name = getattr(what, "__qualname__", type(what).__qualname__)
        seen[name] += 1
        found[f"{name} {seen[name]}" if seen[name] > 1 else name] = each
    return found


def deliver(alert: Alert, recipients: Mapping[str, Any], context: Mapping[str, Any]) -> set[str]:
    """Deliver an alert to all recipients; return the names of those that took it. The log says why others did not.

    :param recipients: see `named`; templates of a notifier find the alert as `alert`.
    """
    delivered = set()
    for name, each in recipients.items():
        try:
            found = each.load() if isinstance(each, ImportedRecipient) else each
            if isinstance(found, BaseNotifier):
                notifier, known = _prepared(found, alert, context)
                # Calling the notifier itself would swallow its error.
                notifier.render_template_fields(known)
                notifier.notify(known)
            else:
                found(alert)
        except Exception:
            log.exception("The alert %s could not be delivered to %s", alert.incident, name)
        else:
            delivered.add(name)
    return delivered


async def deliver_async(alert: Alert, recipients: Mapping[str, Any], context: Mapping[str, Any]) -> set[str]:
    """Do the same as `deliver` in an event loop: by a notifier's `async_notify`, and a function in a thread."""

    async def give(each: Any) -> None:
        found = each.load() if isinstance(each, ImportedRecipient) else each
        if isinstance(found, BaseNotifier):
            notifier, known = _prepared(found, alert, context)
            notifier.context = known
            await notifier
        else:
            await asyncio.to_thread(found, alert)

    results = await asyncio.gather(*(give(each) for each in recipients.values()), return_exceptions=True)
    failed = {name: error for name, error in zip(recipients, results, strict=True) if error is not None}
    for name, error in failed.items():
        log.error("The alert %s could not be delivered to %s", alert.incident, name, exc_info=error)
    return set(recipients) - set(failed)


def _prepared(notifier: BaseNotifier, alert: Alert, context: Mapping[str, Any]) -> tuple[Any, Any]:
    """A copy of the notifier, as rendering replaces its templates, and the context with the alert."""
    return copy.copy(notifier), {**context, "alert": alert}
