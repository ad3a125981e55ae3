"""Look at a stream and say what an operation by hand will do to it: for command line, form and operators alike."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from airflow_stream_provider.lag.moments import Moments
from airflow_stream_provider.lifecycle.errors import ClusterError, ConnectionUnavailable, SpecError
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.condition import Needs
from airflow_stream_provider.planning.foresee import foresee
from airflow_stream_provider.planning.foreseen import Foreseen, Wanted
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.snapshot import Snapshot

if TYPE_CHECKING:
    from airflow_stream_provider.hooks.stream import StreamHook
    from airflow_stream_provider.spec.requested_release import RequestedRelease

# After which another driver goes on from the committed offsets.
_GOES_ON = frozenset({Operation.START, Operation.RESTART, Operation.ROLL_BACK, Operation.FENCE})


def look_ahead(
    hook: StreamHook,
    operation: Operation,
    requested: RequestedRelease | None = None,
    *,
    confirmed_by: str = "",
    since: float | None = None,
) -> Foreseen:
    """Return what an operation will do, by control log and Kafka as they are now; changes nothing. See `foresee`.

    :param requested: what a start and a restart would bring up.
    :raises ControlUnavailable: the control log cannot be read now.
    """
    wanted = wanted_of(requested) if requested is not None else None
    found = _observe(hook, operation) if hook.exists() else Snapshot(hook.stream, time.time(), StreamState())
    return foresee(found, operation, wanted, confirmed_by=confirmed_by, since=since)


def _observe(hook: StreamHook, operation: Operation) -> Snapshot:
    """Observe the stream, with its lag where that says what is read again; a Kafka that is away hinders nothing."""
    if hook.kafka_conn_id and operation in _GOES_ON:
        try:
            return hook.observe(Needs(lag=Moments()))
        except (SpecError, ConnectionUnavailable, ClusterError) as error:
            hook.log.warning("What Kafka still has of what is read next is not known: %s", error)
    return hook.observe()


def wanted_of(requested: RequestedRelease) -> Wanted:
    """Return the release that a start would bring up, as it would be published; or why none can be made of it."""
    try:
        release, _ = requested.make()
    except SpecError as error:
        return Wanted(problem=str(error))
    return Wanted(release.version, release.hash, requested.spec.upgrade.approval)
