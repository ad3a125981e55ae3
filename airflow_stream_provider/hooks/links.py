"""Addresses at which a person sees a driver."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from airflow_stream_provider.hooks.heartbeats import living_heartbeats
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.planning.snapshot import submission_of

if TYPE_CHECKING:
    from airflow_stream_provider.hooks.stream import StreamHook


def driver_links(hook: StreamHook, deployment: str) -> dict[str, str]:
    """Return addresses of a deployment's Spark UI and driver log by label, as far as they are known."""
    found: dict[str, str] = {}
    state = hook.control_log.refresh()
    beats = living_heartbeats(hook.control_log, state)
    submission = submission_of(deployment, state, beats)
    if submission:
        with contextlib.suppress(StreamError):
            found.update(hook.cluster.links(submission))
    for incarnation, beat in beats.items():
        if deployment_of(incarnation) == deployment and beat.ui_url:
            found["Spark UI"] = beat.ui_url
    return found
