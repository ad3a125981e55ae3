"""Look at a stream and say what an operation by hand will do to it: for command line, form and page alike."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_stream_provider.hooks.about_drivers import holder_hangs
from airflow_stream_provider.hooks.audit import audit_job
from airflow_stream_provider.hooks.compare import compare
from airflow_stream_provider.hooks.rewind import find_rewind
from airflow_stream_provider.lag.limits import Moments
from airflow_stream_provider.lifecycle.errors import (
    ClusterError,
    ConnectionUnavailable,
    ControlUnavailable,
    SpecError,
    StorageUnavailable,
    StreamError,
)
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.asked import Asked
from airflow_stream_provider.planning.forecast import forecast
from airflow_stream_provider.planning.foreseen import SHOWN_DIGITS, Foreseen, Wanted
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.waits import Needs
from airflow_stream_provider.spec.stream import Strategy

if TYPE_CHECKING:
    from airflow_stream_provider.hooks.stream import StreamHook
    from airflow_stream_provider.spec.requested_release import RequestedRelease

# Fewer digits would be somebody's typing error.
MIN_DIGITS = 4
_DIGITS = re.compile(rf"[0-9a-f]{{{MIN_DIGITS},64}}")
# So many of those that are there are named in an error.
_NAMED = 10


def stored_release(hook: StreamHook, state: StreamState, digits: str) -> Release:
    """Return the one release whose hash begins so, and whose stored files are those that were published.

    :raises SpecError: there is none, or there are several; the error names those that are there. Or its files are not
        what was published.
    :raises ControlUnavailable: they cannot be read now.
    :raises StorageUnavailable: as above.
    """
    known: dict[str, Release] = {}
    for each in reversed(list(state.deployments.values())):
        known.setdefault(each.release.hash, each.release)
    wanted = digits.strip().lower()
    found = [release for hash, release in known.items() if hash.startswith(wanted)] if _DIGITS.fullmatch(wanted) else []
    if len(found) > 1:
        raise SpecError(
            f"{len(found)} releases of {hook.stream} have a hash that begins with {wanted}: {_named(found)}.",
            next_step="Give more digits of it.",
        )
    if not found:
        there = [release for release in known.values() if not why_not_stored(hook, release)]
        raise SpecError(
            f"{hook.stream} has no stored release of which the hash begins with {digits!r:.70}.",
            next_step=f"Those that are there, newest first: {_named(there) or 'none'}. "
            f"Give {MIN_DIGITS} or more digits of one.",
        )
    missing = why_not_stored(hook, found[0])
    if missing:
        raise SpecError(missing, next_step="Upgrade to that version instead, with its files, or redeploy another one.")
    return found[0]


def why_not_stored(hook: StreamHook, release: Release) -> str:
    """Return why a release cannot be started from what is stored of it; empty when it can.

    :raises ControlUnavailable: that cannot be read now.
    :raises StorageUnavailable: as above.
    """
    try:
        hook.releases.verify(release)
    except (ControlUnavailable, StorageUnavailable):
        raise
    except StreamError as error:
        return error.message
    return ""


def _named(releases: Iterable[Release]) -> str:
    named = [f"{release.version} ({release.hash[:SHOWN_DIGITS]})" for release in releases]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f"{', '.join(named[:_NAMED])}{more}"


# The operations after which another driver goes on from the committed offsets.
_GOES_ON = frozenset(Operation) - {Operation.STOP, Operation.RETIRE, Operation.ABORT}


def look_ahead(
    hook: StreamHook,
    operation: Operation,
    requested: RequestedRelease | None = None,
    *,
    digits: str = "",
    confirmed_by: str = "",
    since: float = math.inf,
    job: str = "",
    to: float | None = None,
    query: str = "",
) -> Foreseen:
    """Return what an operation will do, by control log and Kafka as they are now; changes nothing. See `Asked`.

    :param requested: what the YAML asks for, where it has a say (`Operation.brings_up`).
    :param digits: the hash of a stored release, or the beginning of it; for a redeployment alone.
    :param job: the cluster's id of the job that is to be adopted.
    :param to: since when records are read again, in seconds since 1970; for a rewind alone.
    :param query: which query reads them; default: all.
    :raises ControlUnavailable: the control log cannot be read now.
    :raises StorageUnavailable: the storage of the releases cannot be read now.
    :raises ClusterError: the cluster does not say what that job is.
    """
    snapshot = _observe(hook, operation) if hook.exists() else Snapshot(hook.stream, time.time(), StreamState())
    if digits and operation is not Operation.REDEPLOY:
        raise SpecError("Only a redeployment is of a stored release.", next_step="Leave the hash out, or redeploy.")
    if (to is not None or query) and operation is not Operation.REWIND:
        raise SpecError("Only a rewind goes back to a time.", next_step="Leave time and query out, or rewind.")
    wanted = None if requested is None else _wanted(hook, snapshot, operation, requested, digits)
    if operation is Operation.REWIND and requested is not None and wanted is not None and not wanted.problem:
        ceilings = requested.spec.lag.limits.ceilings
        wanted = replace(wanted, rewind=find_rewind(hook, snapshot, to, query, ceilings))
    if job:
        snapshot = replace(snapshot, job=hook.job(job))
    found = forecast(Asked(snapshot, operation, wanted or Wanted(), confirmed_by, since, job))
    if job and found.parts:
        found = replace(found, will=(*found.will, *audit_job(hook, job)))
    return _with_its_files(hook, snapshot.state, found)


def _wanted(
    hook: StreamHook, snapshot: Snapshot, operation: Operation, requested: RequestedRelease, digits: str
) -> Wanted:
    spec, state = requested.spec, snapshot.state
    if operation is Operation.PROMOTE:
        return Wanted(hanging=holder_hangs(hook, spec, snapshot))
    try:
        if operation is Operation.REWIND:
            held = state.holding_deployment  # without one it is refused later, in its own words
            release = held.release if held is not None else None
        elif operation is Operation.REDEPLOY:
            release = stored_release(hook, state, digits)
        else:
            release, _ = requested.make()  # as it would be published
    except SpecError as error:
        return Wanted(problem=str(error))
    found = Wanted() if release is None else Wanted(release.version, release.hash, spec.upgrade.approval)
    if operation in (Operation.START, Operation.RESTART, Operation.ADOPT):
        return found
    same = operation is Operation.UPGRADE and compare(spec).same
    restart, hangs = spec.upgrade.strategy is Strategy.RESTART, holder_hangs(hook, spec, snapshot)
    return replace(found, same=same, restart=restart, soak=spec.upgrade.soak, hanging=hangs)


def _with_its_files(hook: StreamHook, state: StreamState, found: Foreseen) -> Foreseen:
    """Refuse what would start a stored release whose files are not there any more."""
    release = next((d.release for d in state.deployments.values() if d.release.hash == found.release), None)
    # The release of a redeploy was looked for just now.
    problem = why_not_stored(hook, release) if release and found.operation is not Operation.REDEPLOY else ""
    if not problem:
        return found
    help = "Upgrade to that version, with its files, or redeploy another stored release."
    return found.refuse(f"{problem} {help}")


def _observe(hook: StreamHook, operation: Operation) -> Snapshot:
    """Observe the stream, with its lag where that says what is read again; a Kafka that is away hinders nothing."""
    if hook.kafka_conn_id and operation in _GOES_ON:
        try:
            return hook.observe(Needs(lag=Moments()))
        except (SpecError, ConnectionUnavailable, ClusterError) as error:
            hook.log.warning("What Kafka still has of what is read next is not known: %s", error)
    return hook.observe()
