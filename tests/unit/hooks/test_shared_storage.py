"""Two control roots with one storage, and a stream of one name in each: neither removes what the other one runs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.control import make_root
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.errors import Damaged
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.monitoring.readings import clean_up_stream
from airflow_stream_provider.planning.retire import KEPT_RELEASES
from airflow_stream_provider.releases.open_place import address_of
from airflow_stream_provider.spec.requested_release import RequestedRelease
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.deployed import deploy
from tests.support.noting_cluster import NotingCluster
from tests.support.story import record, retired, write

ROOTS = ("staging", "production")


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    (tmp_path / "storage").mkdir()
    return tmp_path / "storage"


def hook_at(control: Path, storage: Path) -> StreamHook:
    """The hook of the stream `orders` in a control root, as a new process of Airflow opens it."""
    control.mkdir(exist_ok=True)
    make_root(control.as_uri())
    hook = StreamHook("orders", control.as_uri(), "here", storage=storage.as_uri())
    hook.create()
    return hook


@pytest.fixture
def hooks(tmp_path: Path, storage: Path, cluster: NotingCluster) -> dict[str, StreamHook]:
    return {name: hook_at(tmp_path / name, storage) for name in ROOTS}


def requested(hook: StreamHook, folder: Path, version: str) -> RequestedRelease:
    """A release whose contents are those of its version."""
    (folder / f"{version}.py").write_text(f"x = '{version}'\n")
    fields = {"name": "orders", "application": f"{version}.py", "version": version, "cluster": "here"}
    spec = StreamSpec.model_validate({**fields, "control": hook.control})
    spec._source = folder / "streams" / "orders.yaml"
    return RequestedRelease.of(spec, None, None, None, None)


def deployed(hook: StreamHook, folder: Path, version: str) -> Release:
    """Deploy a release, and return it as its record has it."""
    deployment = f"orders-{version}"
    release = deploy(hook, requested(hook, folder, version), deployment)
    assert hook.submit(deployment, "me", first=True)
    return release


def age(storage: Path) -> None:
    """Let everything in the storage look as if it had been written long ago."""
    for path in storage.rglob("*"):
        os.utime(path, times=(0, 0), follow_symlinks=False)


def clean_up(hooks: dict[str, StreamHook], storage: Path) -> None:
    for hook in hooks.values():
        age(storage)
        clean_up_stream(hook)


def folder_of(release: Release) -> Path:
    return Path(address_of(release, "orders", None))


def test_the_clean_up_of_one_root_leaves_what_the_other_one_runs(
    hooks: dict[str, StreamHook], storage: Path, tmp_path: Path
) -> None:
    running = {name: deployed(hook, tmp_path, f"of-{name}") for name, hook in hooks.items()}
    clean_up(hooks, storage)
    for name, hook in hooks.items():
        assert (folder_of(running[name]) / f"of-{name}.py").is_file()
        # As when its driver has died.
        again = record("declared", deployment="orders-again", release=running[name].to_json(), policy={}, reason="")
        write(hook.control_log, again)
        assert hook.submit("orders-again", "me", first=True)


def test_the_same_release_of_both_is_stored_for_each(
    hooks: dict[str, StreamHook], storage: Path, tmp_path: Path
) -> None:
    staging, production = (deployed(hook, tmp_path, "same") for hook in hooks.values())
    assert staging.hash == production.hash
    assert staging.storage != production.storage
    write(hooks["staging"].control_log, retired("orders-same"))
    for number in range(KEPT_RELEASES):
        deployed(hooks["staging"], tmp_path, f"later-{number}")
    clean_up(hooks, storage)
    assert not folder_of(staging).exists()
    assert (folder_of(production) / "same.py").is_file()


def test_what_one_root_does_not_need_any_more_goes(hooks: dict[str, StreamHook], storage: Path, tmp_path: Path) -> None:
    staging = hooks["staging"]
    release = deployed(staging, tmp_path, "needed")
    never = staging.releases.publish(requested(staging, tmp_path, "never-declared"))
    killed = folder_of(release).with_name(f".{never.hash}.killed")
    killed.mkdir()
    clean_up(hooks, storage)
    assert [path.name for path in folder_of(release).parent.iterdir()] == [release.hash]


def test_an_id_that_cannot_be_used_keeps_nothing_else_from_being_removed(
    hooks: dict[str, StreamHook], storage: Path, tmp_path: Path
) -> None:
    """Nor does one that cannot be made, as on a full disk."""
    staging = hooks["staging"]
    release = deployed(staging, tmp_path, "running")
    assert staging.folder is not None
    beat = staging.folder / "heartbeats" / "orders-0-aaaa.00000001.json"
    beat.write_text("{}")
    os.utime(beat, times=(0, 0))
    (staging.folder / "id").unlink()
    (staging.folder / "id").symlink_to(tmp_path / "elsewhere")
    clean_up({"staging": staging}, storage)
    assert not beat.exists()
    assert (folder_of(release) / "running.py").is_file()
    with pytest.raises(Damaged, match="id is not a regular file"):
        staging.releases.publish(requested(staging, tmp_path, "other"))


def test_another_process_of_airflow_publishes_at_the_same_place(
    hooks: dict[str, StreamHook], storage: Path, tmp_path: Path
) -> None:
    first = deployed(hooks["staging"], tmp_path, "first")
    second = deployed(hook_at(tmp_path / "staging", storage), tmp_path, "second")
    assert first.storage == second.storage


def test_another_log_under_the_same_url_is_another_one(
    hooks: dict[str, StreamHook], storage: Path, tmp_path: Path
) -> None:
    """As another machine has it, whose control folder is mounted at the same path; or a log that was begun anew."""
    running = deployed(hooks["staging"], tmp_path, "running")
    (tmp_path / "staging").rename(tmp_path / "of-another-machine")
    other = hook_at(tmp_path / "staging", storage)
    assert deployed(other, tmp_path, "other").storage != running.storage
    clean_up({"other": other}, storage)
    assert (folder_of(running) / "running.py").is_file()


def test_a_copy_of_a_control_folder_is_another_one(hooks: dict[str, StreamHook], storage: Path, tmp_path: Path) -> None:
    deployed(hooks["production"], tmp_path, "before")
    shutil.rmtree(tmp_path / "staging")
    shutil.copytree(tmp_path / "production", tmp_path / "staging")
    running = deployed(hooks["production"], tmp_path, "running")
    clean_up({"staging": hook_at(tmp_path / "staging", storage)}, storage)
    assert (folder_of(running) / "running.py").is_file()


def test_a_stream_whose_storage_changes_finds_both(
    hooks: dict[str, StreamHook], storage: Path, tmp_path: Path, cluster: NotingCluster
) -> None:
    before = deployed(hooks["staging"], tmp_path, "before")
    (tmp_path / "elsewhere").mkdir()
    moved = hook_at(tmp_path / "staging", tmp_path / "elsewhere")
    after = deployed(moved, tmp_path, "after")
    assert folder_of(after).is_relative_to(tmp_path / "elsewhere")
    for each in (storage, tmp_path / "elsewhere"):
        age(each)
    clean_up_stream(moved)
    for release in (before, after):
        again = f"orders-again-{release.version}"
        fields: dict[str, Any] = {"deployment": again, "release": release.to_json(), "policy": {}, "reason": ""}
        write(moved.control_log, record("declared", **fields))
        assert moved.submit(again, "me", first=True)
        assert cluster.jobs[-1].release_dir == str(folder_of(release))
