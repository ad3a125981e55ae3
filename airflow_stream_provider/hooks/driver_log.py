"""Read the log of a driver for the task that waited for it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_stream_provider.clusters import Cluster
from airflow_stream_provider.control.releases import LAUNCHER
from airflow_stream_provider.hooks.drivers import is_stranger
from airflow_stream_provider.hooks.heartbeats import living_heartbeats
from airflow_stream_provider.lifecycle.errors import says
from airflow_stream_provider.planning.snapshot import submission_of
from airflow_stream_provider.releases.open_place import address_of

if TYPE_CHECKING:
    from airflow_stream_provider.hooks.stream import StreamHook

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
