"""Tell a task of a driver: its log, its pages, whether it hangs, and the gap that a change of holder left."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from airflow_stream_provider.clusters import Cluster
from airflow_stream_provider.control.releases import LAUNCHER
from airflow_stream_provider.hooks.drivers import is_stranger, living_heartbeats
from airflow_stream_provider.lifecycle.errors import CheckpointError, StreamError, says
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.hanging import hanging, needs_to_tell
from airflow_stream_provider.planning.snapshot import Snapshot, submission_of
from airflow_stream_provider.planning.waits import Needs
from airflow_stream_provider.releases.open_place import address_of

if TYPE_CHECKING:
    from airflow_stream_provider.hooks.stream import StreamHook
    from airflow_stream_provider.spec.stream import StreamSpec

logger = logging.getLogger(__name__)


def log_tail(hook: StreamHook, deployment: str) -> str:
    """Return the end of what a deployment's driver has written, for a person; empty if it cannot be read."""
    try:
        state = hook.control_log.refresh()
        release = state.deployments[deployment].release
        recorded = state.deployments[deployment].submission
        submission = recorded or submission_of(deployment, state, living_heartbeats(hook.control_log, state))
        if submission and not recorded and is_stranger(hook.cluster, submission, hook.whose(deployment)):
            return ""
        where = address_of(release, hook.stream, hook.folder)
        return driver_log_tail(hook.cluster, submission, where, release.storage or hook.control)
    except Exception as error:  # noqa: BLE001 - it is shown beside an error, which is not to be lost for it
        logger.info("The log of the driver of %s cannot be read: %s", deployment, says(error))
        return ""


def driver_log_tail(cluster: Cluster, submission: str, where: str, mount: str) -> str:
    """Return the end of a driver's log, and what it means if Python has not found the launcher; empty: not known.

    :param submission: of the driver; empty: it was not submitted.
    :param where: path or URL of the folder of its release.
    :param mount: URL of the folder that has it, if drivers are to mount that.
    """
    tail = cluster.log_tail(submission) if submission else ""
    if f"can't open file '{where}/{LAUNCHER}'" not in tail:
        return tail
    return (
        f"{tail}\nThe driver's machine does not have the folder of the release, {where}, or the driver's user may not "
        f"read it. Mount {mount} there under the same path, or set `storage` to one from which drivers fetch releases."
    )


def driver_links(hook: StreamHook, deployment: str) -> dict[str, str]:
    """Return addresses of a deployment's Spark UI and driver log by label, as far as they are known."""
    found: dict[str, str] = {}
    state = hook.control_log.refresh()
    beats = living_heartbeats(hook.control_log, state)
    submission = submission_of(deployment, state, beats)
    if submission:
        with contextlib.suppress(StreamError, OSError, ValueError):
            found.update(hook.cluster.look([submission])[submission].links)
    for incarnation, beat in beats.items():
        if deployment_of(incarnation) == deployment and beat.ui_url:
            found["Spark UI"] = beat.ui_url
    return found


def gaps(snapshot: Snapshot, acquired: Record) -> dict[str, float]:
    """Return, by query, the seconds from the last commit before this change of holder to the first one after it.

    By the times of the commit files: where this machine cannot read the checkpoint, as the driver that took over has
    read them. A query without a known commit before or after is left out.
    """
    # Imported here: every DAG file imports the operators, and parsing needs no reader of checkpoints.
    from airflow_stream_provider.checkpoint.read import read as read_checkpoint

    found = {}
    beat = snapshot.heartbeats.get(acquired["incarnation"])
    # Both by the driver's clock: a gap of an earlier hold is another one.
    told = beat if beat is not None and beat.started_at is not None and beat.started_at >= acquired.at else None
    for query in snapshot.state.incarnations[acquired["incarnation"]].queries:
        try:
            commits = read_checkpoint(query.get("checkpoint", "")).commits
        except CheckpointError:
            progress = told.query(query["name"]) if told else None
            if progress is not None and progress.gap_seconds is not None:
                found[query["name"]] = progress.gap_seconds
            continue
        before = [at for _, at in commits if at <= acquired.at]
        after = [at for _, at in commits if at > acquired.at]
        if before and after:
            found[query["name"]] = round(min(after) - max(before), 3)
    return found


def holder_hangs(hook: StreamHook, spec: StreamSpec, snapshot: Snapshot) -> str:
    """Return why the holder hangs, as a sentence; empty when it does not, or when the lag is not known.

    See `planning.hanging` for what that is. Nothing fails for want of Kafka: then the holder is asked.
    """
    holder = snapshot.state.holder
    if holder is None or not spec.kafka:
        return ""
    try:
        found = hook.observe(Needs(lag=needs_to_tell(snapshot, spec.lag.limits)))
    except StreamError as error:
        hook.log.warning("Whether %s hangs is not known: %s", holder, error)
        return ""
    return hanging(found, spec.lag.limits) if found.state.holder == holder else ""
