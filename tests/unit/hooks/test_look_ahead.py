"""A look ahead on a real control log."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_stream_provider.control import make_root
from airflow_stream_provider.hooks.look_ahead import look_ahead
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.spec.requested_release import RequestedRelease
from airflow_stream_provider.spec.stream import load_spec
from tests.support.snapshots import RUNNING, UPGRADED, up
from tests.support.story import NEW, OLD, OLD_DEPLOYMENT, fenced, retired, wanted, write

YAML = 'name: orders\napplication: {}\nversion: "2"\ncluster: here\ncontrol: file:///d\nupgrade: {{approval: true}}\n'


def requested(tmp_path: Path, application: str) -> RequestedRelease:
    (tmp_path / "streams").mkdir(exist_ok=True)
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "streams" / "orders.yaml").write_text(YAML.format(application))
    return RequestedRelease.of(load_spec(tmp_path / "streams" / "orders.yaml"))


def test_it_reads_and_writes_nothing(hook: StreamHook) -> None:
    write(hook.control_log, *RUNNING)
    found = look_ahead(hook, Operation.STOP)
    assert found.held is not None
    assert (found.held.driver, found.parts) == (OLD, (Operation.STOP,))
    assert look_ahead(hook, Operation.FENCE, since=99.0).done
    assert "by the word of Ada" in look_ahead(hook, Operation.FENCE, confirmed_by="Ada").will[0]
    assert len(hook.control_log.records()) == len(RUNNING)


def test_a_stream_that_was_never_deployed_is_empty(tmp_path: Path) -> None:
    make_root(f"file://{tmp_path}")
    hook = StreamHook("orders", f"file://{tmp_path}", "here")
    found = look_ahead(hook, Operation.START, requested(tmp_path, "a.py"))
    assert (found.phase, found.held) == ("empty", None)
    assert "a person has to approve a new one" in found.refused
    assert not hook.exists()


def test_what_a_start_would_bring_up_has_the_hash_that_it_would_be_published_with(tmp_path: Path) -> None:
    make_root(f"file://{tmp_path}")
    hook = StreamHook("orders", f"file://{tmp_path}", "here")
    release = requested(tmp_path, "a.py")
    assert (
        f"release 2 ({release.make()[0].hash[:12]}) has never held"
        in look_ahead(hook, Operation.START, release).refused
    )
    assert "There is no file" in look_ahead(hook, Operation.START, requested(tmp_path, "gone.py")).refused


def test_an_upgrade_to_what_runs_is_done_already(running: StreamHook, yaml: Path) -> None:
    requested = RequestedRelease.of(load_spec(yaml))
    assert "runs already" in look_ahead(running, Operation.UPGRADE, requested).done
    yaml.write_text(yaml.read_text() + "upgrade: {lease_seconds: 20}\n")
    found = look_ahead(running, Operation.UPGRADE, RequestedRelease.of(load_spec(yaml)))
    assert found.parts == (Operation.UPGRADE,)


def test_a_stored_release_is_redeployed_by_its_first_digits(running: StreamHook, yaml: Path) -> None:
    release = running.control_log.refresh().deployments[OLD_DEPLOYMENT].release
    (yaml.parents[1] / "apps" / "a.py").unlink()
    requested = RequestedRelease.of(load_spec(yaml))
    assert "runs already" in look_ahead(running, Operation.REDEPLOY, requested, digits=release.hash[:8]).done
    write(running.control_log, fenced(OLD))
    found = look_ahead(running, Operation.REDEPLOY, requested, digits=release.hash[:8])
    assert (found.parts, found.release) == ((Operation.UPGRADE,), release.hash)
    assert "Those that are there" in look_ahead(running, Operation.REDEPLOY, requested, digits="ffff").refused
    with pytest.raises(SpecError, match="Only a redeployment"):
        look_ahead(running, Operation.STOP, digits="ffff")


def test_a_promotion_needs_no_files_but_an_approval(hook: StreamHook, tmp_path: Path) -> None:
    write(hook.control_log, *RUNNING, wanted("new", "stand_by", approval=True), *up(NEW, "new"))
    found = look_ahead(hook, Operation.PROMOTE, requested(tmp_path, "gone.py"))
    assert "a person has to approve it" in found.refused


def test_a_roll_back_to_files_that_have_gone_is_refused(hook: StreamHook) -> None:
    write(hook.control_log, *UPGRADED)
    assert look_ahead(hook, Operation.ROLL_BACK).parts == (Operation.ROLL_BACK,), "the old one is warm"
    write(hook.control_log, retired(OLD_DEPLOYMENT))
    found = look_ahead(hook, Operation.ROLL_BACK)
    assert "have changed since they were published" in found.refused
    assert found.refused.endswith("Upgrade to that version, with its files, or redeploy another stored release.")
    assert (found.parts, found.deployment) == ((), "")
