"""The incident that the watch itself has failed: its recipients, and which of them were told already."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.monitoring.incidents import IncidentKind, IncidentState, Symptom, update_incidents
from airflow_stream_provider.monitoring.recipients import recipients_of
from airflow_stream_provider.monitoring.telling import Told, tell

if TYPE_CHECKING:
    from airflow_stream_provider.spec.stream import StreamSpec

log = logging.getLogger(__name__)


def tell_of_watch(
    name: str,
    problem: str,
    before: Mapping[str, Any],
    specs: Iterable[StreamSpec],
    context: Mapping[str, Any],
    *,
    worse: bool = False,
) -> dict[str, Any]:
    """Tell everybody whom one of the streams names that the watch has failed, or works again; each of them once.

    An error of delivery is logged: it must not take the place of how the look ended.

    :param name: of the watch.
    :param problem: what is wrong, sentences; empty: nothing.
    :param before: what this returned at the look before; damaged or of another version, it begins anew.
    :param worse: whether those who know of it must be told again.
    :return: as JSON, for the next look; empty when nothing is wrong and every recipient was told.
    """
    if not problem and not before:
        return {}
    try:
        symptom = Symptom(Health.FAIL if problem else Health.PASS, problem, worse=worse)
        return _tell(name, symptom, _known(before), recipients_of(specs), context)
    except Exception as error:  # noqa: BLE001 - as said
        says = str(error) if isinstance(error, StreamError) else type(error).__name__
        log.error("People could not be told of the watch; the next look tries again: %s", says)
        return dict(before)


def _tell(
    name: str, symptom: Symptom, known: Mapping[str, IncidentState], to: Mapping[str, Any], context: Mapping[str, Any]
) -> dict[str, Any]:
    now = time.time()
    told = Told(name, update_incidents(name, known, {IncidentKind.WATCH: symptom}, now), now, to)
    tell([told], context)
    state = told.incidents[IncidentKind.WATCH]
    return {} if state.incident is None and not state.acknowledged else state.to_json()


def _known(before: Mapping[str, Any]) -> dict[str, IncidentState]:
    try:
        return {IncidentKind.WATCH.value: IncidentState.from_json(before)} if before else {}
    except (KeyError, TypeError, ValueError, AttributeError):
        log.warning("What an earlier look said of the watch was left by another version; beginning anew.")
        return {}
