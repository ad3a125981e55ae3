"""The recipients of alerts: notifiers of Airflow, and functions that say that they take alerts."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pprint import saferepr
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.sdk import BaseNotifier

from airflow_stream_provider.lifecycle.errors import SpecError

if TYPE_CHECKING:
    from airflow_stream_provider.monitoring.alert import Alert
    from airflow_stream_provider.spec.stream import StreamSpec

log = logging.getLogger(__name__)

_MARK = "takes_alerts"
_Function = TypeVar("_Function", bound=Callable[..., Any])


def takes_alerts(function: _Function) -> _Function:
    """Mark a function as one that `notify` in a stream's YAML may name; it is called with an Alert and its arguments.

    A YAML file is not code: without the mark it could call any function that a worker can import.
    """
    setattr(function, _MARK, True)
    return function


@dataclass(frozen=True)
class ImportedRecipient:
    """A recipient that is named by its dotted path and imported only when an alert is delivered.

    So one that cannot be imported misses its alerts, and does not stop the watch.
    """

    path: str
    # May hold a password, and a dataclass shows its fields.
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """A name that is equal for equal recipients, and shows nothing of their arguments."""
        if not self.arguments:
            return self.path
        # The same text for equal arguments: it sorts them.
        return f"{self.path} {hashlib.sha256(saferepr(self.arguments).encode()).hexdigest()[:8]}"

    def load(self) -> Any:
        """Return the notifier or function; see `recipient`."""
        return recipient(self.path, self.arguments)


def recipient(path: str, arguments: Mapping[str, Any]) -> Any:
    """Import a recipient: a class of notifiers, which is instantiated, or a function marked by `takes_alerts`.

    :param path: dotted, such as ``airflow.providers.smtp.notifications.smtp.SmtpNotifier``.
    :param arguments: of the notifier, or of the function besides the alert.
    :raises SpecError: it cannot be imported, is neither, or does not accept these arguments.
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
        _fits(path, found, arguments)
        try:
            return found(**arguments)
        except Exception as error:  # noqa: BLE001 - a notifier may raise anything, and its text may quote an argument
            refused = f"`notify` names {path}, which cannot be instantiated: {type(error).__name__}."
            raise SpecError(refused, next_step="Correct its arguments.", path=path) from None
    if not inspect.isfunction(found) or not getattr(found, _MARK, False):
        raise SpecError(
            f"`notify` names {path}, which is neither a notifier nor a function that takes alerts.",
            next_step="Correct the name, or mark the function: @takes_alerts, "
            "from airflow_stream_provider.monitoring.recipients.",
            path=path,
        )
    _fits(path, partial(found, None), arguments)
    return partial(found, **arguments)


def named(recipients: Iterable[Any]) -> dict[str, Any]:
    """Return the recipients by a name that shows nothing of their arguments.

    Equal ImportedRecipients are one, and have the same name in every process.

    :param recipients: notifiers, functions that take an alert, or ImportedRecipients.
    """
    found: dict[str, Any] = {}
    seen: Counter[str] = Counter()
    for each in recipients:
        if isinstance(each, ImportedRecipient):
            found[each.name] = each
            continue
        what = each.func if isinstance(each, partial) else each
        name = getattr(what, "__qualname__", type(what).__qualname__)
        seen[name] += 1
        found[f"{name} {seen[name]}" if seen[name] > 1 else name] = each
    return found


def write_to_log(alert: Alert) -> None:
    """Write an alert to the log; it is a recipient of every one."""
    log.warning("%s\n%s", alert.subject, alert.text)


def recipients_of(specs: Iterable[StreamSpec]) -> dict[str, Any]:
    """Return the recipients of a stream, or of a place that several need: all that any of them names."""
    every = (ImportedRecipient(each.call, each.arguments) for spec in specs for each in spec.notify)
    return {"log": write_to_log} | named(every)


def _fits(path: str, what: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that do not exist or are missing; the error names them, and none of their values."""
    try:
        inspect.signature(what).bind(**arguments)
    except TypeError as error:
        raise SpecError(f"`notify` names {path}: {error}.", next_step="Correct its arguments.", path=path) from None
