"""When a change of the YAML starts an upgrade: once for each wish, and never again for what was refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.control.releases import runtime_zip
from airflow_stream_provider.hooks.compare import refuse_unasked, unasked_release
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.planning.steps import Want
from airflow_stream_provider.spec.requested_release import RequestedRelease
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from devstack.control_folder import folder_of
from tests.support.deployed import deploy
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    acquired,
    failed,
    ready,
    record,
    released,
    requested,
    standby,
    submitted,
    wanted,
    write,
)


def declare(hook: StreamHook, spec: StreamSpec, deployment: str, by: str = "me", **more: Any) -> None:
    deploy(hook, RequestedRelease.of(spec), deployment, by, **more)


def due(hook: StreamHook, yaml: Path) -> bool:
    return bool(unasked_release(hook, hook.control_log.refresh(), load_spec(yaml)))


def change(yaml: Path) -> None:
    (yaml.parent.parent / "apps" / "a.py").write_text("x = 2\n")


def refused(hook: StreamHook, yaml: Path, run: str = "airflow:dag/mine/", stored: str = "") -> str:
    """Why an upgrade that the schedule has triggered does not begin; empty: it does."""
    try:
        refuse_unasked(hook, hook.control_log.refresh(), load_spec(yaml), run, stored)
    except StreamError as error:
        return str(error)
    return ""


def test_a_fresh_driver_is_for_the_release_that_holds_whatever_the_yaml_says(running: StreamHook, yaml: Path) -> None:
    held = running.control_log.refresh().holding_deployment
    assert held is not None
    change(yaml)
    assert refused(running, yaml, stored=held.release.hash) == ""
    assert "A fresh driver was due for release 000000000000" in refused(running, yaml, stored="0" * 64)


def test_a_trial_is_nothing_that_the_yaml_has_asked_for(running: StreamHook, yaml: Path) -> None:
    held = running.control_log.refresh().holding_deployment
    assert held is not None
    policy = {**held.policy.to_json(), "trial": {"persist": True}}
    write(running.control_log, wanted("trial", "stand_by", release=held.release.to_json(), policy=policy))
    assert not due(running, yaml)
    change(yaml)
    assert due(running, yaml)


def test_a_change_is_due_until_somebody_has_asked_for_it(running: StreamHook, yaml: Path) -> None:
    assert not due(running, yaml)
    change(yaml)
    assert due(running, yaml)
    declare(running, load_spec(yaml), NEW_DEPLOYMENT)
    assert not due(running, yaml)


def test_what_was_refused_is_not_tried_again_and_what_is_changed_then_is(running: StreamHook, yaml: Path) -> None:
    change(yaml)
    declare(running, load_spec(yaml), NEW_DEPLOYMENT)
    write(running.control_log, submitted(NEW_DEPLOYMENT), standby(NEW), failed(NEW))
    assert not due(running, yaml)
    yaml.write_text(yaml.read_text() + "arguments: [--limit, '5']\n")
    assert due(running, yaml)


def test_a_stream_that_was_rolled_back_stays_so_until_the_yaml_changes(running: StreamHook, yaml: Path) -> None:
    old = running.control_log.state.deployments[OLD_DEPLOYMENT].release
    change(yaml)
    declare(running, load_spec(yaml), NEW_DEPLOYMENT)
    over = [requested("up", NEW), ready("up", NEW), released(OLD, "up", NEW), acquired(NEW, "up", 2)]
    write(running.control_log, submitted(NEW_DEPLOYMENT), standby(NEW), *over)
    back = wanted("back", family=OLD_DEPLOYMENT, back=True)
    again: dict[str, Any] = {"again": OLD_DEPLOYMENT, "family": OLD_DEPLOYMENT}
    write(
        running.control_log,
        back,
        record("declared", deployment="orders-3-cccc", release=old.to_json(), policy={}, reason="", **again),
    )
    assert not due(running, yaml)
    assert not refused(running, yaml), "it holds still"
    over = [requested("back", OLD), ready("back", OLD), released(NEW, "back", OLD), acquired(OLD, "back", 3)]
    write(running.control_log, *over)
    assert not due(running, yaml)
    assert f"({NEW_DEPLOYMENT}), which was refused, or which somebody went back from" in refused(running, yaml)
    (yaml.parent.parent / "apps" / "a.py").write_text("x = 1\n")
    assert due(running, yaml), "the YAML was taken back, too: what it says was not asked for last"
    assert not refused(running, yaml)


def test_where_nobody_can_tell_a_release_that_was_refused_stays_away(
    running: StreamHook, yaml: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a review: the schedule brought it back once the provider was upgraded, with its stored files gone."""
    change(yaml)
    declare(running, load_spec(yaml), NEW_DEPLOYMENT)
    write(running.control_log, submitted(NEW_DEPLOYMENT), standby(NEW), failed(NEW))
    newest = running.control_log.state.deployments[NEW_DEPLOYMENT].release
    stored = folder_of(running.control_log) / "releases" / newest.hash
    stored.chmod(0o770)
    (stored / "a.py").unlink()
    assert refused(running, yaml).startswith(f"The YAML asks for release 1 ({NEW_DEPLOYMENT}), which was refused")
    monkeypatch.setattr("airflow_stream_provider.control.releases.runtime_zip", lambda: runtime_zip() + b"\n")
    assert refused(running, yaml).startswith("Nobody can tell whether the YAML asks for anything but release 1")
    yaml.write_text(yaml.read_text() + "arguments: [--limit, '5']\n")
    assert not refused(running, yaml), "it does"


def test_another_version_of_the_provider_upgrades_nothing_by_itself(
    running: StreamHook, yaml: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_stream_provider.control.releases.runtime_zip", lambda: runtime_zip() + b"\n")
    assert not due(running, yaml)
    change(yaml)
    assert due(running, yaml)


def test_nothing_is_due_where_the_stream_was_stopped_or_never_started(hook: StreamHook, yaml: Path) -> None:
    assert not due(hook, yaml)
    declare(hook, load_spec(yaml), OLD_DEPLOYMENT, goal="hold")
    change(yaml)
    assert not due(hook, yaml)
    holds = [standby(OLD), requested("start", OLD), ready("start", OLD), acquired(OLD, "start", 1)]
    assert "No driver has held the stream yet" in refused(hook, yaml)
    write(hook.control_log, submitted(OLD_DEPLOYMENT), *holds)
    assert not refused(hook, yaml), "a fresh driver of the same release, or what the YAML says by now"
    stopped = "The stream was stopped by airflow (a person wants it), and only a person starts it."
    write(hook.control_log, wanted("rest", "stop"), requested("stop", None, wish="rest"))
    assert stopped in refused(hook, yaml), "found by a review: it ends its batch, and was started again after that"
    write(hook.control_log, released(OLD, "stop", None))
    assert not due(hook, yaml)
    assert stopped in refused(hook, yaml)


def test_a_run_that_has_begun_is_not_refused_when_its_check_is_cleared(running: StreamHook, yaml: Path) -> None:
    """Found by a review: it took its own release for one that was refused, and its own stop for that of a person."""
    change(yaml)
    declare(running, load_spec(yaml), NEW_DEPLOYMENT)
    assert "which was refused" in refused(running, yaml)
    assert not refused(running, yaml, "me")
    stop = wanted("rest", "stop", by="me/stop")
    write(running.control_log, stop, requested("stop", None, wish="rest"), released(OLD, "stop", None))
    assert "The stream was stopped by me/stop (a person wants it)" in refused(running, yaml)
    assert not refused(running, yaml, "me")


def test_nothing_is_due_while_the_holder_changes(running: StreamHook, yaml: Path) -> None:
    change(yaml)
    write(running.control_log, requested("stop", None))
    assert not due(running, yaml)


def test_what_cannot_be_read_is_said(running: StreamHook, yaml: Path) -> None:
    change(yaml)
    (release,) = (folder_of(running.control_log) / "releases").iterdir()
    release.chmod(0o770)
    (release / "a.py").unlink()
    assert not due(running, yaml), "nobody knows what has changed"
    (yaml.parent.parent / "apps" / "a.py").unlink()
    with pytest.raises((SpecError, StreamError), match=r"a\.py"):
        due(running, yaml)


def test_a_redeployment_is_no_wish_of_the_yaml(running: StreamHook, yaml: Path) -> None:
    change(yaml)
    declare(running, load_spec(yaml), NEW_DEPLOYMENT, redeployed=True)
    assert due(running, yaml)


def test_a_release_that_found_no_room_is_not_asked_for_again(running: StreamHook, yaml: Path) -> None:
    change(yaml)
    want = Want({"wish": "w", "goal": "stand_by", "reason": "why"}, publish=True)
    assert running.wish(want, "me", running.control_log.refresh().seq, RequestedRelease.of(load_spec(yaml)))
    assert not due(running, yaml)
