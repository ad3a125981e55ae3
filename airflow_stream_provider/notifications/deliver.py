"""Bring an alert to people, and notice when that fails."""

from __future__ import annotations

import copy
import importlib
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from airflow.sdk import BaseNotifier

from airflow_stream_provider.model.errors import SpecError

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
            todo="Install its provider on the workers, or correct the name.",
            path=path,
        ) from error
    if isinstance(found, type) and issubclass(found, BaseNotifier):
        try:
            return found(**arguments)
        except TypeError as error:
            raise SpecError(f"`notify` names {path}: {error}.", todo="Correct its arguments.", path=path) from error
    if not callable(found):
        raise SpecError(f"`notify` names {path}, which is no notifier and no function.", todo="Correct it.", path=path)
    return partial(found, **arguments)


def deliver(alert: Any, to: Sequence[Any], context: Mapping[str, Any]) -> bool:
    """Give an alert to all of them; return whether each has taken it.

    :param to: notifiers of Airflow, in whose templates it is `alert`, or functions that take it.
    """
    taken = True
    for each in to:
        try:
            if isinstance(each, BaseNotifier):
                notifier: Any = copy.copy(each)  # rendering replaces its templates
                known: Any = {**context, "alert": alert}
                # Not by calling it: that swallows the error.
                notifier.render_template_fields(known)
                notifier.notify(known)
            else:
                each(alert)
        except Exception:
            log.exception("%s could not be told of %s", each, alert.incident)
            taken = False
    return taken
