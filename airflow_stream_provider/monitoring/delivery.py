"""Bring an alert to people, and notice when that fails."""

from __future__ import annotations

import copy
import importlib
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from airflow.sdk import BaseNotifier

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.spec.stream import NotifySpec

log = logging.getLogger(__name__)


def recipient(path: str, arguments: Mapping[str, Any]) -> Any:
    """Return the recipient that a stream's YAML names: a notifier of Airflow, or a function that takes an alert.

    :param path: dotted, such as ``airflow.providers.smtp.notifications.smtp.SmtpNotifier``.
    :param arguments: of the notifier, or of the function besides the alert.
    :raises SpecError: it cannot be imported, or does not take these arguments.
    """
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise SpecError(
            f"`notify` names {path}, and there is no such thing here: {error}.",
            next_step="Install its provider on the workers, or correct the name.",
            path=path,
        ) from error
    if isinstance(found, type) and issubclass(found, BaseNotifier):
        try:
            return found(**arguments)
        except TypeError as error:
            raise SpecError(
                f"`notify` names {path}: {error}.", next_step="Correct its arguments.", path=path
            ) from error
        except Exception as error:  # noqa: BLE001 - whatever a notifier raises; its words may quote an argument
            refused = f"`notify` names {path}, which cannot be made: {type(error).__name__}."
            raise SpecError(refused, next_step="Correct its arguments.", path=path) from None
    if not callable(found):
        raise SpecError(
            f"`notify` names {path}, which is no notifier and no function.", next_step="Correct it.", path=path
        )
    return partial(found, **arguments)


def named(to: Iterable[Any]) -> dict[str, Any]:
    """Return recipients by a name that tells them apart and nothing of their arguments.

    :param to: notifiers of Airflow, functions that take an alert, or what a stream's YAML says of either.
    """
    found: dict[str, Any] = {}
    seen: Counter[str] = Counter()
    for each in to:
        what = each.func if isinstance(each, partial) else each
        name = what.call if isinstance(what, NotifySpec) else getattr(what, "__qualname__", type(what).__qualname__)
        seen[name] += 1
        found[f"{name} {seen[name]}" if seen[name] > 1 else name] = each
    return found


def deliver(alert: Any, to: Mapping[str, Any], context: Mapping[str, Any]) -> set[str]:
    """Give an alert to all of them; return the names of those who have taken it. The log says why others have not.

    :param to: see `named`; in a notifier's templates the alert is `alert`.
    """
    taken = set()
    for name, each in to.items():
        try:
            found = recipient(each.call, each.arguments) if isinstance(each, NotifySpec) else each
            if isinstance(found, BaseNotifier):
                notifier: Any = copy.copy(found)  # rendering replaces its templates
                known: Any = {**context, "alert": alert}
                # Not by calling it: that swallows the error.
                notifier.render_template_fields(known)
                notifier.notify(known)
            else:
                found(alert)
        except Exception:
            log.exception("%s could not be told of %s", name, alert.incident)
        else:
            taken.add(name)
    return taken
