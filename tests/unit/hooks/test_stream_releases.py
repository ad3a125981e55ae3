"""The hook on a real control log: a release is published, declared, submitted and killed, each only once."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.clusters import FoundDrivers, Whose
from airflow_stream_provider.control import FilesRoot, make_root
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.hooks.submit import job_of
from airflow_stream_provider.lifecycle.errors import (
    ClusterError,
    SpecError,
    StreamError,
)
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.monitoring.readings import clean_up_stream
from airflow_stream_provider.planning.steps import Declare, Want
from airflow_stream_provider.releases.open_place import address_of
from airflow_stream_provider.spec.requested_release import RequestedRelease
from airflow_stream_provider.spec.stream import StreamSpec
from devstack.control_folder import folder_of
from tests.support.control_root import published
from tests.support.deployed import deploy
from tests.support.noting_cluster import NotingCluster
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    PREPARED,
    write,
)


def requested_release(tmp_path: Path, **more: Any) -> RequestedRelease:
    (tmp_path / "a.py").write_text("x = 1\n")
    control = f"file://{tmp_path}"
    fields = {"name": "orders", "application": "a.py", "version": "2", "cluster": "c", "control": control}
    spec = StreamSpec.model_validate(fields)
    spec._source = tmp_path / "streams" / "orders.yaml"
    return RequestedRelease.of(spec, None, more.pop("application", None), None, ["/old"])


def wish(hook: StreamHook, requested: RequestedRelease, checked: Release | None = None, **fields: Any) -> bool:
    """Wish that it stands by, by a hook that has just looked."""
    seq = hook.control_log.refresh().seq
    want = Want({"wish": f"w{seq}", "goal": "stand_by", "reason": "why", **fields}, publish=True)
    return hook.wish(want, "me", seq, requested, checked)


def test_a_release_is_published_with_its_wish(hook: StreamHook, tmp_path: Path) -> None:
    requested = requested_release(tmp_path)
    want = Want({"wish": "w", "goal": "stand_by", "reason": "why"}, publish=True)
    assert not hook.wish(want, "me", 7, requested), "the log does not end there"
    assert hook.wish(want, "me", 0, requested)
    (record,) = hook.control_log.records()
    release = Release.from_json(record["release"])
    assert (release.folder(folder_of(hook.control_log)) / "a.py").read_text() == "x = 1\n"
    assert (record["policy"]["changed_checkpoints"], record["policy"]["adopts"]) == (["/old"], False)
    assert (record["goal"], record["reason"], record.by) == ("stand_by", "why", "me")
    assert "max_seconds" not in record.fields, "its YAML names no such limit"
    assert hook.releases.publish(requested) == release, "the same contents are the same release"
    assert hook.wish(Want({"wish": "x", "goal": "stop", "reason": "why"}), "me", 1)
    assert wish(hook, requested, adopts=True)
    assert hook.control_log.records()[-1]["policy"]["adopts"] is True


def test_what_the_stream_leaves_out_stays_until_a_wish_says_otherwise(hook: StreamHook, tmp_path: Path) -> None:
    requested, bad = requested_release(tmp_path), "orders-3@1@5"
    said: list[dict[str, Any]] = [{"skip": [bad]}, {}, {"find": True}, {"skip": []}, {}]
    for fields in said:
        assert wish(hook, requested, **fields)
        assert not {"skip", "find"} & hook.control_log.records()[-1].fields.keys()
    policies = [each["policy"] for each in hook.control_log.records()]
    assert [(each["skip"], each["find"]) for each in policies] == [
        ([bad], False),
        ([bad], False),
        ([bad], True),
        ([], False),
        ([], False),
    ]


def test_a_deployment_is_declared_when_there_is_room(hook: StreamHook, tmp_path: Path, cluster: NotingCluster) -> None:
    cluster.full = ClusterError("No room.")
    with pytest.raises(ClusterError, match=r"No room\."):
        deploy(hook, requested_release(tmp_path), NEW_DEPLOYMENT)
    (record,) = hook.control_log.records()
    cluster.full = None
    declared = Declare(NEW_DEPLOYMENT, {"release": record["release"], "family": NEW_DEPLOYMENT, "reason": "why"})
    assert not hook.declare(declared, "me", 7)
    assert hook.declare(declared, "me", 1)
    found = hook.control_log.refresh().deployments[NEW_DEPLOYMENT]
    assert (found.family, found.release.to_json(), found.declared.by) == (NEW_DEPLOYMENT, record["release"], "me")


def test_what_was_published_before_is_wished_though_its_script_has_changed_since(
    hook: StreamHook, tmp_path: Path, cluster: NotingCluster
) -> None:
    requested = requested_release(tmp_path)
    checked = hook.releases.publish(requested)
    (tmp_path / "a.py").write_text("x = 2\n")
    release = deploy(hook, requested, OLD_DEPLOYMENT, checked=checked)
    assert release == checked
    assert (release.folder(folder_of(hook.control_log)) / "a.py").read_text() == "x = 1\n"
    assert hook.submit(OLD_DEPLOYMENT, "test", first=True)


def test_what_was_published_before_and_is_gone_is_not_wished(hook: StreamHook, tmp_path: Path) -> None:
    requested = requested_release(tmp_path)
    checked = hook.releases.publish(requested)
    with pytest.raises(StreamError, match=r"a\.py is missing"):
        wish(hook, requested, replace(checked, hash="0" * 64))
    assert hook.control_log.records() == []


def test_what_others_have_stored_elsewhere_is_not_wished_unless_the_log_knows_it(
    hook: StreamHook, tmp_path: Path, cluster: NotingCluster
) -> None:
    """Whoever may write XCom could otherwise have any code run: it has the hash that it has."""
    requested = requested_release(tmp_path)
    (tmp_path / "other").mkdir()
    foreign = StreamHook(hook.stream, hook.control, hook.cluster_conn_id, storage=f"file://{tmp_path}/other")
    hook.create()
    elsewhere = foreign.releases.publish(requested)
    assert hook.releases.verify(elsewhere), "it is whole"
    with pytest.raises(SpecError, match=r"is in file://.*/other.*, where orders publishes none"):
        wish(hook, requested, elsewhere)
    assert hook.control_log.records() == []
    # A stored release of the log, as after a change of `storage`.
    deploy(foreign, requested, OLD_DEPLOYMENT, checked=elsewhere)
    assert wish(hook, requested, elsewhere)
    with pytest.raises(SpecError, match="never deployed from there"):
        wish(hook, requested, replace(elsewhere, arguments=("--any",)))


def test_environment_is_published_and_submitted(hook: StreamHook, cluster: NotingCluster, tmp_path: Path) -> None:
    requested = requested_release(tmp_path)
    spec = requested.spec.model_copy(update={"environment": {"REGION": "eu"}})
    deploy(hook, replace(requested, spec=spec), OLD_DEPLOYMENT)
    assert hook.control_log.records()[0]["release"]["environment"] == {"REGION": "eu"}
    assert hook.submit(OLD_DEPLOYMENT, "test", first=True)
    assert cluster.jobs[0].environment == {"REGION": "eu"}


def test_a_release_that_cannot_be_used_is_not_published(hook: StreamHook, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="There is no file"):
        wish(hook, requested_release(tmp_path, application="none.py"))
    assert list((folder_of(hook.control_log) / "releases").iterdir()) == []
    with pytest.raises(SpecError, match="There is no file"):
        hook.releases.publish(requested_release(tmp_path, application="none.py"))
    assert list((folder_of(hook.control_log) / "releases").iterdir()) == []


def test_a_submission_is_recorded(hook: StreamHook, cluster: NotingCluster) -> None:
    write(hook.control_log, published(hook.control_log, OLD_DEPLOYMENT))
    assert hook.submit(OLD_DEPLOYMENT, "me", first=True)
    assert hook.control_log.refresh().deployments[OLD_DEPLOYMENT].submission == "driver-1"
    assert cluster.jobs[0].arguments[:2] == ("--control", hook.control)


@pytest.mark.parametrize("spelling", ["file://{}", "file:{}", "file://localhost{}/"])
def test_whose_a_driver_is_says_the_control_log_itself_however_its_url_is_spelt(
    hook: StreamHook, cluster: NotingCluster, tmp_path: Path, spelling: str
) -> None:
    """Another Airflow has a root, a stream, a DAG and a run of the same names, and so a deployment of this id."""
    make_root((tmp_path / "other").as_uri())
    other = StreamHook("orders", (tmp_path / "other").as_uri(), "here")
    other.create()
    for each in (hook, other):
        write(each.control_log, published(each.control_log, OLD_DEPLOYMENT))
    respelt = StreamHook("orders", spelling.format(tmp_path), "here")
    for each, whose in ((respelt, hook), (other, other)):
        origin = whose.control_log.store.origin()
        cluster.found = FoundDrivers(certain=False)
        assert not each.submit(OLD_DEPLOYMENT, "me", first=False)
        each.kill(OLD_DEPLOYMENT)
        assert cluster.whose == Whose(OLD_DEPLOYMENT, origin, ("--control", each.control))
        cluster.found = FoundDrivers()
        assert each.submit(OLD_DEPLOYMENT, "me", first=False)
        assert (cluster.jobs[-1].log, cluster.jobs[-1].whose.log) == (origin, origin)
        assert cluster.jobs[-1].app_name == f"orders 1 [{OLD_DEPLOYMENT}] {origin[:8]}"
    mine, theirs = cluster.jobs
    assert mine.log != theirs.log


def test_a_release_that_was_changed_is_not_submitted(hook: StreamHook, cluster: NotingCluster) -> None:
    declared = published(hook.control_log, OLD_DEPLOYMENT)
    write(hook.control_log, declared)
    folder = folder_of(hook.control_log) / "releases" / declared["release"]["hash"]
    folder.chmod(0o770)
    (folder / "argparse.py").write_text("")
    with pytest.raises(StreamError, match=r"argparse\.py does not belong there"):
        hook.submit(OLD_DEPLOYMENT, "me", first=True)
    assert cluster.jobs == []


def test_a_release_in_a_storage_is_found_again_when_the_storage_has_changed(
    hook: StreamHook, cluster: NotingCluster, tmp_path: Path
) -> None:
    (tmp_path / "storage").mkdir()
    old = StreamHook("orders", hook.control, "here", storage=(tmp_path / "storage").as_uri())
    release = deploy(old, requested_release(tmp_path), OLD_DEPLOYMENT)
    (part,) = (tmp_path / "storage").iterdir()
    assert release.storage == part.as_uri()
    folder = part / "orders" / "releases" / release.hash
    assert (folder / "a.py").is_file()
    assert not any((folder_of(hook.control_log) / "releases").iterdir())
    assert hook.submit(OLD_DEPLOYMENT, "me", first=True)  # by a hook whose YAML names no storage any more
    assert cluster.jobs[0].release_dir == str(folder)
    assert cluster.jobs[0].stream_folder == str(folder_of(hook.control_log))
    assert "--storage" not in cluster.jobs[0].arguments
    os.utime(folder, times=(0, 0))
    clean_up_stream(old)
    assert folder.is_dir(), "a deployment of it has not ended"


def test_a_driver_is_told_where_to_fetch_its_release() -> None:
    release = Release("1", "a" * 64, application="a.py", storage="s3a://bucket/team")
    folder = Path("/c/orders")
    job = job_of(FilesRoot("file:///c"), "orders", folder, "orders-1", release, address_of(release, "orders", folder))
    assert job.launcher == f"s3a://bucket/team/orders/releases/{'a' * 64}/launcher.py"
    assert job.files == ()
    assert job.arguments[6:] == ("--storage", "s3a://bucket/team", "--release", "a" * 64, "--", "a.py")


def test_everything_that_is_known_of_a_deployment_is_killed_once(hook: StreamHook, cluster: NotingCluster) -> None:
    write(hook.control_log, *PREPARED)
    hook.control_log.beat(OLD, Heartbeat(submission="driver-5"))
    hook.control_log.beat(NEW, Heartbeat(submission="driver-6"))
    cluster.found = FoundDrivers(alive=("driver-5", "driver-9"), ended=("driver-4",))
    hook.kill(OLD_DEPLOYMENT)
    assert cluster.did == [("kill", name) for name in ("driver-5", "driver-9", f"driver-{OLD_DEPLOYMENT}")]
