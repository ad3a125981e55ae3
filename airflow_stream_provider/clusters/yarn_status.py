"""Read the ResourceManager's answer on an application: its owner, its state, its pages."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from airflow_stream_provider.clusters.cluster import DriverState, DriverView
from airflow_stream_provider.clusters.whose import Whose
from airflow_stream_provider.clusters.yarn_api import Manager, is_application
from airflow_stream_provider.clusters.yarn_request import COMMON_TAG, LOG_TAG, deployment_tag, log_tag, said_tags
from airflow_stream_provider.clusters.yarn_submission import is_submission, may_come

WAITS = {"NEW", "NEW_SAVING", "SUBMITTED"}
"""States before the queue has taken it."""
_ENDS = {
    "SUCCEEDED": DriverState.FINISHED,
    "FAILED": DriverState.FAILED,
    "KILLED": DriverState.KILLED,
}


def runs(app: Mapping[str, Any], whose: Whose) -> bool | None:
    """Return whether an application is of a deployment; None: it does not name its control log."""
    tags = said_tags(app)
    if deployment_tag(whose.deployment) not in tags or COMMON_TAG not in tags:
        return False
    if whose.log and any(tag.startswith(LOG_TAG) for tag in tags):
        return log_tag(whose.log) in tags
    return None


def state(manager: Manager, id: str, app: Mapping[str, Any] | None) -> DriverState:
    """Return a driver's state; None for what the ResourceManager does not know."""
    if app is not None:
        return state_of(app)
    if is_submission(id):
        return DriverState.RESERVED if may_come(id, time.time()) else DriverState.LOST
    return DriverState.RESERVED if is_application(id) and manager.handed_out(id) else DriverState.LOST


def state_of(app: Mapping[str, Any]) -> DriverState:
    """Return the state of a driver that the ResourceManager knows."""
    said = str(app.get("state"))
    if said == "RUNNING":
        return DriverState.RUNNING
    if said in ("FINISHED", "FAILED", "KILLED"):
        return _ENDS.get(str(app.get("finalStatus")), DriverState.FAILED)
    # ACCEPTED, too, until the script has made its SparkContext; before its container there is no log.
    has_container = said not in WAITS and bool(app.get("amContainerLogs"))
    return DriverState.RUNNING if has_container else DriverState.QUEUED


def view(manager: Manager, id: str, app: Mapping[str, Any] | None) -> DriverView:
    """Return a driver's state with links to its page, its log on its node, and its web UI through YARN's proxy."""
    known = str(app["id"]) if app is not None else id
    links = {"YARN": f"{manager.url}/cluster/app/{quote(known, safe='')}"}
    if app is not None and app.get("amContainerLogs"):
        links["driver log"] = str(app["amContainerLogs"])
    if app is not None and app.get("state") == "RUNNING" and app.get("trackingUrl"):
        links["Spark UI"] = str(app["trackingUrl"])
    return DriverView(state(manager, id, app), links)
