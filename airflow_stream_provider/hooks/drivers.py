"""Ask a stream's cluster for a deployment's drivers, by everything that is known of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from airflow_stream_provider.clusters import Cluster, DriverState, Whose, status_of
from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.lifecycle.errors import ClusterError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.snapshot import DriverFacts

logger = logging.getLogger(__name__)


def driver_facts(log: ControlLog, cluster: Cluster, whose: Whose) -> DriverFacts | None:
    """Return what the cluster says of all drivers of a deployment together; None if it can have none.

    They are gone when every one of them is, and alive while one of them is.
    """
    deployment = whose.deployment
    state, known = log.refresh(), submissions(log, deployment)
    if not known:
        return _unnamed(log, cluster, whose) if state.of_deployment(deployment) else None
    # Before the cluster is asked: a driver that comes up meanwhile is not taken for one that was forgotten.
    never_there = may_be_unsent(log, deployment)
    states = {each: status_of(cluster, each) for each in known}
    if not never_there:
        states = {each: DriverState.LOST if found.reserved else found for each, found in states.items()}
    shown = next((each for each in known if not states[each].terminal), "")
    if shown:
        return DriverFacts(shown, states[shown])
    # Read anew: the last heartbeat of a driver from before the cluster called it ended.
    beats = log.heartbeats(deployment)
    apps, hosts = applications(beats), _executor_hosts(log, deployment, beats)
    remains = [cluster.remains(each, whose, apps, hosts) for each in known]
    lost = any(left.lost for left in remains) and not any(left.alive for left in remains)
    return DriverFacts(known[0], states[known[0]], all(left.gone for left in remains), lost)


def kill_drivers(log: ControlLog, cluster: Cluster, whose: Whose) -> None:
    """Kill all drivers of a deployment, by everything that is known of them.

    A driver that the log or the cluster names is killed. One that only a heartbeat names may be another team's, and is
    left alone if the cluster says so; `driver_facts` counts it all the same, so that nothing is confirmed by it.

    :raises ClusterError: the cluster does not answer.
    """
    declared = log.refresh().deployments[whose.deployment]
    named = {*submissions(log, whose.deployment)}
    sure = {declared.submission} - {""} | {*cluster.find(whose, declared.declared_at).alive}
    apps = applications(log.heartbeats(whose.deployment))
    # Asked of the applications before the first kill: the cluster names only what runs.
    apps = {each for each in sorted(apps) if each in sure or not is_stranger(cluster, each, whose)}
    for submission in (*sorted(sure), *sorted(named - sure)):
        if submission in sure or not is_stranger(cluster, submission, whose):
            cluster.kill(submission, apps)


def is_stranger(cluster: Cluster, id: str, whose: Whose) -> bool:
    """Return whether a driver, or an application, that a heartbeat names is certainly not of this deployment.

    :raises ClusterError: the cluster does not answer.
    """
    if cluster.look([id], whose)[id].ours is not False:
        return False
    logger.warning(
        "A heartbeat of %s names %s, which the cluster runs for somebody else: it is not touched. Whoever can write to "
        "the stream's control log has written that; see docs/security.md.",
        whose.deployment,
        id,
    )
    return True


def may_be_unsent(log: ControlLog, deployment: str) -> bool:
    """Return whether a deployment's id in the log may be reserved only: no driver of it was ever there.

    The cluster forgets what has ended long ago; a driver that was there has left a heartbeat, or is in the log. One
    whose deployment has ended is not wanted, and reads that in the log should it still come.
    """
    state = log.state
    return not (state.deployments[deployment].ended or state.of_deployment(deployment) or log.heartbeats(deployment))


def submissions(log: ControlLog, deployment: str) -> list[str]:
    """Return the cluster's ids of a deployment's drivers, as far as they are known, the recorded one first.

    There are several when a submission was repeated, or the cluster has relaunched the driver.
    """
    declared = log.state.deployments.get(deployment)
    recorded = declared.submission if declared else ""
    said = {beat.submission for beat in log.heartbeats(deployment).values()}
    return [each for each in (recorded, *sorted(said - {recorded})) if each]


def applications(beats: Mapping[str, Heartbeat]) -> set[str]:
    """Return the ids of the Spark applications of the drivers with these heartbeats, as far as they have said them."""
    return {beat.application_id for beat in beats.values() if beat.application_id}


def _executor_hosts(log: ControlLog, deployment: str, beats: Mapping[str, Heartbeat]) -> set[str] | None:
    """Return every host that executors of a deployment's drivers have run on; None when one of them has not said so."""
    silent = not beats or any(each.id not in beats for each in log.state.of_deployment(deployment))
    if silent or any(beat.executor_hosts is None for beat in beats.values()):
        return None
    return {host for beat in beats.values() for host in beat.executor_hosts or ()}


def _unnamed(log: ControlLog, cluster: Cluster, whose: Whose) -> DriverFacts:
    """Return the cluster's answer on a driver that is in the log without a known submission.

    Nothing can confirm its death: if the cluster has no driver of the deployment, it is lost, and not gone.
    """
    deployment = whose.deployment
    try:
        found = cluster.find(whose, log.state.deployments[deployment].declared_at)
    except ClusterError:
        return DriverFacts("", DriverState.UNKNOWN)
    if found.alive:
        return DriverFacts(found.alive[0], status_of(cluster, found.alive[0]))
    if not found.certain:
        return DriverFacts("", DriverState.UNKNOWN)
    # No driver has this id; its application and executors are known by their names.
    beats = log.heartbeats(deployment)
    left = cluster.remains(deployment, whose, applications(beats), _executor_hosts(log, deployment, beats))
    return DriverFacts("", DriverState.LOST, lost=not left.alive)


def living_heartbeats(log: ControlLog, state: StreamState) -> Mapping[str, Heartbeat]:
    """Return the heartbeats that can still matter; those of drivers that ended long ago are not read again."""
    found = {}
    for name in log.store.heartbeats():
        known = state.incarnations.get(name)
        # A deployment that the state has left out does not matter.
        coming = known is None and deployment_of(name) in state.deployments
        ended = known is None or known.state.terminal
        wanted = coming or not ended or name in (*state.must_fence, state.last_holder)
        beat = log.heartbeat(name) if wanted else None
        if beat is not None:
            found[name] = beat
    return found
