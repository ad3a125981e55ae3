"""A release that somebody wishes by the real hook, and a deployment that serves the wish."""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.planning.steps import Declare, Want
from airflow_stream_provider.spec.requested_release import RequestedRelease


def deploy(
    hook: StreamHook,
    requested: RequestedRelease,
    deployment: str,
    by: str = "me",
    *,
    goal: str = "stand_by",
    checked: Release | None = None,
    **fields: Any,
) -> Release:
    """Publish, wish and declare it; the family of the wish is named like the deployment."""
    want = Want({"wish": deployment, "goal": goal, "reason": "why", **fields}, publish=True)
    assert hook.wish(want, by, hook.control_log.refresh().seq, requested, checked)
    wish = hook.control_log.refresh().wishes[deployment]
    said = {name: wish.option(name) for name in ("release", "policy", "rewind") if wish.option(name) is not None}
    declared = Declare(deployment, {**said, "family": deployment, "reason": "why"})
    assert hook.declare(declared, by, hook.control_log.refresh().seq)
    return hook.control_log.refresh().deployments[deployment].release
