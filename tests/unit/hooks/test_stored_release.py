"""A stored release is found by the first digits of its hash, on real files."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_stream_provider.hooks.look_ahead import stored_release, why_not_stored
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.release import Release
from devstack.control_folder import folder_of, publish
from tests.support.story import hash_of, record, write


@pytest.fixture
def releases(hook: StreamHook, tmp_path: Path) -> list[Release]:
    """Two releases that are stored, and one whose files have gone; the newest comes last."""
    found = []
    for version in ("1", "2"):
        (tmp_path / "app.py").write_text(f"x = {version}\n")
        found.append(publish(folder_of(hook.control_log), version=version, application=tmp_path / "app.py"))
    found.append(Release("3", hash_of("gone"), "app.py"))
    for each in (*found, found[0]):
        deployment = f"orders-{each.version}-{len(hook.control_log.records()):08x}"
        write(hook.control_log, record("declared", deployment=deployment, release=each.to_json(), policy={}))
    return found


def test_some_digits_are_enough(hook: StreamHook, releases: list[Release]) -> None:
    state = hook.control_log.refresh()
    for digits in (releases[0].hash, releases[0].hash[:9], f" {releases[0].hash[:8].upper()} "):
        assert stored_release(hook, state, digits) == releases[0]


def test_what_is_not_there_is_refused_and_those_that_are_there_are_named(
    hook: StreamHook, releases: list[Release]
) -> None:
    state = hook.control_log.refresh()
    there = f"1 ({releases[0].hash[:12]}), 2 ({releases[1].hash[:12]}). Give 4"
    for digits in ("0" * 12, releases[0].hash[:3], "", "; rm -rf /", "g" * 12):
        with pytest.raises(SpecError) as caught:
            stored_release(hook, state, digits)
        assert f"Those that are there, newest first: {there}" in str(caught.value)
        assert "3 (" not in str(caught.value)


def test_digits_of_several_are_refused(hook: StreamHook) -> None:
    for end in "12":
        release = Release(end, "abcd" + end * 60)
        write(hook.control_log, record("declared", deployment=f"orders-{end}-{end * 8}", release=release.to_json()))
    with pytest.raises(SpecError, match=r"2 releases of orders have a hash that begins with abcd: 2 \(abcd2222"):
        stored_release(hook, hook.control_log.refresh(), "abcd")


def test_a_release_whose_files_have_gone_or_changed_is_refused(hook: StreamHook, releases: list[Release]) -> None:
    with pytest.raises(SpecError, match="have changed since they were published"):
        stored_release(hook, hook.control_log.refresh(), releases[2].hash[:8])
    assert why_not_stored(hook, releases[1]) == ""
    script = releases[1].folder(folder_of(hook.control_log)) / "app.py"
    script.chmod(0o600)
    script.write_text("x = 99\n")
    assert "their hash is" in why_not_stored(hook, releases[1])


def test_where_nothing_was_ever_deployed_none_is_there(hook: StreamHook) -> None:
    with pytest.raises(SpecError, match="newest first: none"):
        stored_release(hook, hook.control_log.refresh(), "abcd")
