"""Look at the needs of an upgrade that no other step looks at, before anything is touched; changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.audit import Requirements, Severity, audit, tool_arguments
from airflow_stream_provider.audit.recorded import recorded_clients
from airflow_stream_provider.checkpoint import check_whole, locate, recorded_form
from airflow_stream_provider.hooks.connections import kafka_extra
from airflow_stream_provider.lag.limits import Moments
from airflow_stream_provider.lifecycle.changed_checkpoints import Change, locations
from airflow_stream_provider.lifecycle.errors import CheckpointBroken, CheckpointError, SpecError, StreamError
from airflow_stream_provider.planning.kept_offsets import kept_offsets
from airflow_stream_provider.planning.preflight import Finding, job_beside, other_instances, package_findings
from airflow_stream_provider.planning.waits import Needs

if TYPE_CHECKING:
    from airflow_stream_provider.hooks.stream import StreamHook
    from airflow_stream_provider.lifecycle.release import Release
    from airflow_stream_provider.lifecycle.state import Incarnation
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.spec.requested_release import RequestedRelease

_DELETED = (
    "Restore the topic, or deploy a release with failOnDataLoss=false and write `PATH: source`, with the query's "
    "checkpoint, in the form's `changed_checkpoints`: it then goes on with what is left."
)


def preflight(
    hook: StreamHook, requested: RequestedRelease, snapshot: Snapshot, stored: Release | None = None
) -> Iterable[Finding]:
    """Yield the findings: unknown instances, checkpoints, the records that Kafka has left, topics, packages.

    :param stored: the release that is deployed again; default: the one that is requested.
    :raises ClusterError: the cluster does not answer.
    """
    yield from job_beside(snapshot.state)
    yield from other_instances(snapshot.state, hook.cluster.running(hook.stream, hook.control_log.store.origin()))
    last = snapshot.state.last_driver
    beat = snapshot.heartbeats.get(snapshot.state.last_holder or "")
    yield from package_findings((stored or requested.spec).conf, beat.spark_version if beat else "")
    if last is None:
        return
    kept = _without(last.queries, requested, Change.CHECKPOINT)
    for query in kept:
        yield from _checkpoint(str(query.get("name")), str(query.get("checkpoint")))
    if hook.kafka_conn_id:
        # One that reads elsewhere from now on does not need these records.
        checked = {str(query.get("name")) for query in _without(kept, requested, Change.SOURCE)}
        yield from _offsets(hook, requested, last, checked)
        yield from _topics(hook, requested, snapshot)


def _without(
    queries: Sequence[Mapping[str, Any]], requested: RequestedRelease, change: Change
) -> list[Mapping[str, Any]]:
    on_purpose = {recorded_form(name) for name in locations(requested.changed_checkpoints, change)}
    return [query for query in queries if recorded_form(str(query.get("checkpoint"))) not in on_purpose]


def _checkpoint(name: str, location: str) -> Iterable[Finding]:
    """Check that a checkpoint is whole, where this machine can see it; its driver does so wherever it is."""
    try:
        place = locate(location)
        if isinstance(place, Path) and place.parent.is_dir():
            check_whole(place)
            return
        why = "it is not mounted here"
    except CheckpointBroken as error:
        yield Finding(error.message, error.next_step, refuses=True)
        return
    except CheckpointError as error:
        why = error.message
    yield Finding(f"Whether the checkpoint of the query {name} is whole, its new driver will see: {why.rstrip('.')}.")


def _offsets(hook: StreamHook, requested: RequestedRelease, last: Incarnation, checked: set[str]) -> Iterable[Finding]:
    report = hook.observe(Needs(lag=Moments()), history=False).lag
    if report is None:
        yield Finding("Whether Kafka still has what the stream reads next is not known; the task's log says why.")
        return
    found = kept_offsets(report, last.queries, requested.spec.lag.limits.ceilings, only=checked)
    yield from (Finding(text, _DELETED, refuses=True) for text in found.gone)
    yield from (Finding(text) for text in (*found.skipped, *found.near, *found.unknown))


def _topics(hook: StreamHook, requested: RequestedRelease, snapshot: Snapshot) -> Iterable[Finding]:
    """Audit the topics that the stream reads. Nothing refuses: they are as bad for the release that runs."""
    from airflow_stream_provider.kafka.client import KafkaClient

    conn_id = str(hook.kafka_conn_id)
    try:
        clients = recorded_clients(hook.stream, snapshot.state, snapshot.heartbeats)
        wanted = Requirements(
            source=clients.source, sink=clients.sink, offsets_group=requested.spec.offsets_group or ""
        )
        extra = kafka_extra(conn_id)
        with KafkaClient(conn_id, extra) as client:
            report = audit(client, clients.topics, wanted, tool_arguments(extra))
    except SpecError:
        return  # no driver has named a topic yet
    except StreamError as error:
        yield Finding(f"The topics could not be audited: {error.message}")
        return
    yield from (Finding(f"Audit: {finding}.") for finding in report.failing(Severity.HIGH))
