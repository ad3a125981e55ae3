"""Look at the needs of an upgrade that no other step looks at, before anything is touched; changes nothing.

No cluster tells which packages its machines have: a driver that lacks something fails in its first minute, before it
rehearses, and its log is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.audit import Severity
from airflow_stream_provider.audit.report import judge_spark
from airflow_stream_provider.checkpoint import check_whole, locate, recorded_form
from airflow_stream_provider.hooks.audit import audit_kafka, spark_facts
from airflow_stream_provider.lag.limits import Moments
from airflow_stream_provider.lifecycle.changed_checkpoints import Change, locations
from airflow_stream_provider.lifecycle.environment import allowed
from airflow_stream_provider.lifecycle.errors import CheckpointBroken, CheckpointError, SpecError, StreamError
from airflow_stream_provider.planning.job import FOLLOW_FIRST, job_first
from airflow_stream_provider.planning.kept_offsets import kept_offsets
from airflow_stream_provider.planning.waits import Needs
from airflow_stream_provider.spec.fields import NAME_A_PACKAGE, no_packages
from airflow_stream_provider.spec.spark_versions import TRY_IT, parts_of_spark, untried

if TYPE_CHECKING:
    from airflow_stream_provider.hooks.stream import StreamHook
    from airflow_stream_provider.lifecycle.release import Release
    from airflow_stream_provider.lifecycle.state import Incarnation, StreamState
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.spec.requested_release import RequestedRelease
    from airflow_stream_provider.spec.stream import StreamSpec


class PreflightFailed(StreamError):
    """Something was found with which no upgrade may begin; nothing was touched."""


@dataclass(frozen=True)
class Finding:
    """One thing that a person should know.

    :param refuses: whether no upgrade may begin with it; the others are shown, and nothing more.
    """

    text: str
    next_step: str = ""
    refuses: bool = False

    def __str__(self) -> str:
        return f"{self.text} {self.next_step}".strip()


def refuse(findings: Iterable[Finding]) -> list[str]:
    """Return what is to be shown.

    :raises PreflightFailed: one refuses; of several the first.
    """
    found = list(findings)
    worst = next((each for each in found if each.refuses), None)
    if worst is not None:
        raise PreflightFailed(f"{worst.text} Nothing was touched.", next_step=worst.next_step)
    return [str(each) for each in found]


def other_instances(state: StreamState, running: Mapping[str, str]) -> list[Finding]:
    """Return what the cluster runs for a stream besides the drivers that its control log knows to live.

    One of a deployment that the log has never had is refused: it is not known what it does, and a log that was put back
    from an older copy would look the same. One that has ended by the log writes nothing, and exits once it reads that.

    :param running: by an id of the cluster's the deployment, of this control log alone (`Cluster.running`).
    """
    found, seen = [], dict[str, str]()
    for id, deployment in sorted(running.items()):
        known = state.deployments.get(deployment)
        if known is None and deployment not in state.forgotten:
            found.append(
                Finding(
                    f"The cluster runs {id} for this stream, of the deployment {deployment}, and the control log has "
                    "none of that name.",
                    next_step=f"Find out who has started it, and whether the control log was put back from an older "
                    f"copy; end {id} on the cluster. Then trigger again.",
                    refuses=True,
                )
            )
        elif known is None or known.ended:
            how = known.ended.value if known is not None and known.ended else "ended long ago"
            found.append(
                Finding(
                    f"The cluster still runs {id} of {deployment}, which is {how} by the control log.",
                    next_step=f"It exits once it reads that. If it is still there in a minute, end {id} there.",
                )
            )
        elif deployment in seen:
            found.append(
                Finding(
                    f"The cluster runs two drivers of {deployment}: {seen[deployment]} and {id}. One of them holds or "
                    "stands by; the other one was relaunched, or was submitted twice.",
                    next_step="`airflow streams status` names the one that is known: end the other one on the cluster.",
                )
            )
        seen[deployment] = id
    return found


def package_findings(conf: Mapping[str, str], spark: str) -> list[Finding]:
    """Return what is wrong with the packages and jars in a release's conf, and which Spark is untried.

    :param spark: version of Spark that drivers run there, from the last heartbeat; empty: not known.
    """
    found = [Finding(text, NAME_A_PACKAGE, refuses=True) for text in no_packages(conf)]
    other = [(name, version) for name, version in parts_of_spark(conf) if spark and version != spark]
    if other:
        named = ", ".join(f"{name} {version}" for name, version in other)
        found.append(
            Finding(
                f"The release names {named}, and drivers of this stream run Spark {spark}, by the last heartbeat.",
                next_step="Where Spark stays as it is, name the packages of its version.",
            )
        )
    versions = {spark, *(version for _, version in parts_of_spark(conf))}
    found += [Finding(text, TRY_IT) for text in sorted(map(untried, versions)) if text]
    return found


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
    job = job_first(snapshot.state)
    if job:
        yield Finding(job, FOLLOW_FIRST, refuses=True)
    yield from other_instances(snapshot.state, hook.cluster.running(hook.stream, hook.control_log.store.origin()))
    last = snapshot.state.last_driver
    beat = snapshot.heartbeats.get(snapshot.state.last_holder or "")
    yield from package_findings((stored or requested.spec).conf, beat.spark_version if beat else "")
    if last is None:
        return
    yield from _settings(hook, stored or requested.spec, snapshot)
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
    try:
        report = audit_kafka(hook, snapshot, requested.spec.offsets_group or "")
    except SpecError:
        return  # no driver has named a topic yet
    except StreamError as error:
        yield Finding(f"The topics could not be audited: {error.message}")
        return
    yield from (Finding(f"Audit: {finding}.") for finding in report.failing(Severity.HIGH))


def _settings(hook: StreamHook, release: Release | StreamSpec, snapshot: Snapshot) -> Iterable[Finding]:
    """Audit the settings that a release changes. It is not refused for what the release that runs has as well."""
    last = snapshot.state.last_driver
    try:
        facts = spark_facts(hook, snapshot, snapshot.state.last_holder)
    except SpecError:
        return  # an older driver, which has not said with which settings it runs
    assert last is not None
    former = snapshot.state.deployments[last.deployment].release.conf
    kept = {name: value for name, value in facts.environment.conf.items() if name not in former}
    conf = {**kept, **allowed(release.conf)}
    known = {(each.check, each.subject) for each in judge_spark(facts).failing(Severity.HIGH)}
    changed = replace(facts, environment=replace(facts.environment, conf=conf))
    for each in judge_spark(changed).failing(Severity.HIGH):
        if (each.check, each.subject) not in known:
            yield Finding(f"Audit: the release brings in {each}.", refuses=each.severity is Severity.CRITICAL)
