"""What the log of a driver says to the task that waited for it."""

from __future__ import annotations

from airflow_stream_provider.clusters import Cluster
from airflow_stream_provider.control.releases import LAUNCHER


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
