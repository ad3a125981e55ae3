"""Look at a stream and say what an operation by hand will do to it: for command line, form and operators alike."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_stream_provider.hooks.compare import compare
from airflow_stream_provider.hooks.holder_hangs import holder_hangs
from airflow_stream_provider.hooks.rewind import find_rewind
from airflow_stream_provider.hooks.stored_release import stored_release, why_not_stored
from airflow_stream_provider.lag.moments import Moments
from airflow_stream_provider.lifecycle.errors import ClusterError, ConnectionUnavailable, SpecError
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.condition import Needs
from airflow_stream_provider.planning.foresee import foresee
from airflow_stream_provider.planning.foreseen import Foreseen, Wanted
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.spec.stream import Strategy

if TYPE_CHECKING:
    from airflow_stream_provider.hooks.stream import StreamHook
    from airflow_stream_provider.spec.requested_release import RequestedRelease
    from airflow_stream_provider.spec.stream import StreamSpec

# The operations after which another driver goes on from the committed offsets.
_GOES_ON = frozenset(Operation) - {Operation.STOP, Operation.RETIRE, Operation.ABORT}


def look_ahead(
    hook: StreamHook,
    operation: Operation,
    requested: RequestedRelease | None = None,
    *,
    digits: str = "",
    confirmed_by: str = "",
    since: float | None = None,
    job: str = "",
    to: float | None = None,
    query: str = "",
    lag: bool = True,
) -> Foreseen:
    """Return what an operation will do, by control log and Kafka as they are now; changes nothing. See `foresee`.

    :param requested: what the YAML asks for, where it has a say (`Operation.brings_up`).
    :param digits: the hash of a stored release, or the beginning of it; for a redeployment alone.
    :param job: the cluster's id of the job that is to be adopted.
    :param to: since when records are read again, in seconds since 1970; for a rewind alone.
    :param query: which query reads them; default: all.
    :param lag: whether Kafka is asked what it still has of what is read next; default True. It may take a while.
    :raises ControlUnavailable: the control log cannot be read now.
    :raises StorageUnavailable: the storage of the releases cannot be read now.
    :raises ClusterError: the cluster does not say what that job is.
    """
    snapshot = (
        _observe(hook, operation, lag=lag) if hook.exists() else Snapshot(hook.stream, time.time(), StreamState())
    )
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
    found = foresee(snapshot, operation, wanted, confirmed_by=confirmed_by, since=since, job=job)
    return _with_its_files(hook, snapshot.state, found)


def _wanted(
    hook: StreamHook, snapshot: Snapshot, operation: Operation, requested: RequestedRelease, digits: str
) -> Wanted:
    spec = requested.spec
    if operation in (Operation.START, Operation.RESTART, Operation.ADOPT):
        return wanted_of(requested)
    if operation is Operation.PROMOTE:
        hangs = holder_hangs(hook, spec, snapshot)
        return Wanted(approval=spec.upgrade.approval, hanging=hangs, max_seconds=spec.lag.max_seconds)
    if operation is Operation.UPGRADE:
        found = wanted_of(requested)
        same = not found.problem and compare(spec).same
    elif operation is Operation.REWIND:
        found, same = _that_holds(snapshot.state, spec), False
    else:
        found, same = _stored(hook, snapshot.state, spec, digits), False
    restart = spec.upgrade.strategy is Strategy.RESTART
    hangs = "" if found.problem else holder_hangs(hook, spec, snapshot)
    return replace(found, same=same, restart=restart, soak=spec.upgrade.soak, hanging=hangs)


def _that_holds(state: StreamState, spec: StreamSpec) -> Wanted:
    """Return the release that holds, which is deployed once more."""
    held = state.holding_deployment
    if spec.problem or held is None:  # the second is refused later, in its own words
        return Wanted(problem=spec.problem)
    return Wanted(held.release.version, held.release.hash, spec.upgrade.approval)


def _stored(hook: StreamHook, state: StreamState, spec: StreamSpec, digits: str) -> Wanted:
    if spec.problem:
        return Wanted(problem=spec.problem)
    try:
        release = stored_release(hook, state, digits)
    except SpecError as error:
        return Wanted(problem=str(error))
    return Wanted(release.version, release.hash, spec.upgrade.approval)


def _with_its_files(hook: StreamHook, state: StreamState, found: Foreseen) -> Foreseen:
    """Refuse what would start a stored release whose files are not there any more."""
    release = next((d.release for d in state.deployments.values() if d.release.hash == found.release), None)
    # The release of a redeploy was looked for just now.
    problem = why_not_stored(hook, release) if release and found.operation is not Operation.REDEPLOY else ""
    if not problem:
        return found
    help = "Upgrade to that version, with its files, or redeploy another stored release."
    return found.refuse(f"{problem} {help}")


def _observe(hook: StreamHook, operation: Operation, *, lag: bool) -> Snapshot:
    """Observe the stream, with its lag where that says what is read again; a Kafka that is away hinders nothing."""
    if lag and hook.kafka_conn_id and operation in _GOES_ON:
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
