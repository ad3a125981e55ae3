"""A YAML is compared with what runs: on a real control log, with releases that were really published."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_stream_provider.control.releases import LAUNCHER, RUNTIME_ZIP, runtime_zip
from airflow_stream_provider.hooks.compare import Comparison, compare
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, SpecError
from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.spec.requested_release import RequestedRelease
from airflow_stream_provider.spec.stream import load_spec
from devstack.control_folder import folder_of
from tests.support.deployed import deploy
from tests.support.story import (
    OLD,
    OLD_DEPLOYMENT,
    released,
    requested,
    wanted,
    write,
)

Compare = Callable[..., Comparison]


def fields(found: Comparison) -> list[str]:
    return [each.field for each in found.found]


def test_what_runs_as_the_yaml_says_is_the_same(running: StreamHook, yaml: Path) -> None:
    found = compare(load_spec(yaml))
    assert (found.same, found.new_release, found.found, found.problem) == (True, False, (), "")
    assert found.running is not None
    assert (found.running.id, found.phase) == (OLD_DEPLOYMENT, StreamPhase.RUNNING)


def test_a_changed_script_is_found_by_its_hash(running: StreamHook, yaml: Path, tmp_path: Path) -> None:
    (tmp_path / "apps" / "b.py").write_text("y = 2\n")
    found = compare(load_spec(yaml))
    assert (found.same, found.new_release, fields(found)) == (False, True, ["release", "files.b.py"])
    published = running.releases.publish(RequestedRelease.of(load_spec(yaml), None, None, None, None))
    assert found.wanted.hash == published.hash, "it is what an upgrade deploys"


def test_settings_that_are_no_part_of_a_release_are_found(running: StreamHook, yaml: Path) -> None:
    yaml.write_text(yaml.read_text().replace("spark_default", "other") + "upgrade: {lease_seconds: 45}\n")
    found = compare(load_spec(yaml))
    assert (found.same, found.new_release, fields(found)) == (False, False, ["cluster", "upgrade.lease_seconds"])


def test_what_takes_effect_without_an_upgrade_is_no_difference(running: StreamHook, yaml: Path) -> None:
    more = "kafka: k\nlag: {max_records: 1}\nwatch: {schedule: 5m}\nupgrade: {soak: 1h, keep_previous: 1m}\n"
    yaml.write_text(yaml.read_text() + more)
    assert compare(load_spec(yaml)).same


def test_a_storage_that_is_named_now_is_a_difference(running: StreamHook, yaml: Path, tmp_path: Path) -> None:
    (tmp_path / "storage").mkdir()
    yaml.write_text(yaml.read_text() + f"storage: {(tmp_path / 'storage').as_uri()}\n")
    assert fields(compare(load_spec(yaml))) == ["storage"]
    assert not any((tmp_path / "storage").iterdir()), "a comparison stores nothing"


def test_another_version_of_the_provider_is_found(
    running: StreamHook, yaml: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_stream_provider.control.releases.runtime_zip", lambda: runtime_zip() + b"\n")
    assert fields(compare(load_spec(yaml))) == ["release", f"files.{RUNTIME_ZIP}"]


def test_files_that_cannot_be_read_are_said_and_the_rest_is_compared(
    running: StreamHook, yaml: Path, tmp_path: Path
) -> None:
    (release,) = (folder_of(running.control_log) / "releases").iterdir()
    release.chmod(0o770)
    (release / LAUNCHER).unlink()
    assert compare(load_spec(yaml)).same, "equal hashes are equal releases"
    yaml.write_text(yaml.read_text().replace('version: "1"', 'version: "2"'))
    found = compare(load_spec(yaml))
    assert fields(found) == ["release", "version"]
    assert f"{LAUNCHER} is missing" in found.problem


def test_what_ran_last_is_compared_while_nobody_holds(running: StreamHook, yaml: Path) -> None:
    stop = [wanted("rest", "stop"), requested("stop", None, wish="rest")]
    write(running.control_log, *stop, released(OLD, "stop", None))
    found = compare(load_spec(yaml))
    assert (found.same, found.phase) == (True, StreamPhase.STOPPED)


@pytest.mark.parametrize("declare", [False, True])
def test_a_stream_that_has_never_run_differs(hook: StreamHook, yaml: Path, declare: bool) -> None:
    if declare:
        asked = RequestedRelease.of(load_spec(yaml), None, None, None, None)
        deploy(hook, asked, OLD_DEPLOYMENT, goal="hold")
    found = compare(load_spec(yaml))
    assert (found.same, found.new_release, found.running, found.found) == (False, True, None, ())
    assert found.to_json()["running"] is None


def test_a_stream_without_a_log_has_never_run(hook: StreamHook, yaml: Path) -> None:
    yaml.write_text(yaml.read_text().replace("name: orders", "name: other"))
    assert compare(load_spec(yaml)).running is None


def test_what_cannot_be_compared_is_an_error(yaml: Path, tmp_path: Path) -> None:
    with pytest.raises(ControlUnavailable, match="is not a control root"):
        compare(load_spec(yaml))
    (tmp_path / "apps" / "b.py").unlink()
    with pytest.raises(SpecError, match="There is no file"):
        compare(load_spec(yaml))


def test_the_json(running: StreamHook, yaml: Path) -> None:
    yaml.write_text(yaml.read_text().replace("cores.max: 2", "cores.max: 4"))
    found = compare(load_spec(yaml)).to_json()
    assert (found["stream"], found["phase"], found["same"], found["new_release"]) == ("orders", "running", False, True)
    assert found["running"]["deployment"] == OLD_DEPLOYMENT
    assert found["yaml"]["version"] == "1"
    assert found["differences"][1:] == [{"field": "conf.spark.cores.max", "running": "2", "yaml": "4"}]
