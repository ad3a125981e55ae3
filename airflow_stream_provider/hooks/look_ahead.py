"""Look at a stream and say what an operation by hand will do to it: for command line, form and operators alike."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.foresee import foresee
from airflow_stream_provider.planning.foreseen import Foreseen, Wanted
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.snapshot import Snapshot

if TYPE_CHECKING:
    from airflow_stream_provider.hooks.stream import StreamHook
    from airflow_stream_provider.spec.requested_release import RequestedRelease


def look_ahead(
    hook: StreamHook,
    operation: Operation,
    requested: RequestedRelease | None = None,
    *,
    confirmed_by: str = "",
    since: float | None = None,
    job: str = "",
) -> Foreseen:
    """Return what an operation will do, by the control log as it is now; changes nothing. See `foresee`.

    :param requested: what a start and a restart would bring up.
    :param job: the cluster's id of the job that is to be adopted.
    :raises ControlUnavailable: the control log cannot be read now.
    :raises ClusterError: the cluster does not say what that job is.
    """
    wanted = wanted_of(requested) if requested is not None else None
    found = hook.observe() if hook.exists() else Snapshot(hook.stream, time.time(), StreamState())
    if job:
        found = replace(found, job=hook.job(job))
    return foresee(found, operation, wanted, confirmed_by=confirmed_by, since=since, job=job)


def wanted_of(requested: RequestedRelease) -> Wanted:
    """Return the release that a start would bring up, as it would be published; or why none can be made of it."""
    try:
        release, _ = requested.make()
    except SpecError as error:
        return Wanted(problem=str(error))
    return Wanted(release.version, release.hash, requested.spec.upgrade.approval)
