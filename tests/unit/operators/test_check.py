"""What is refused before anything runs: one sentence each, and nothing is declared."""

from __future__ import annotations

import json
import timeit
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_stream_provider.control import ControlLog, FilesRoot, make_root, open_log
from airflow_stream_provider.hooks import stream
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.errors import ClusterError, SpecError
from airflow_stream_provider.operators.check import CheckReleaseOperator
from airflow_stream_provider.planning.steps import Want
from airflow_stream_provider.spec.requested_release import MAX_SCRIPT_BYTES, RequestedRelease
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from devstack import checkpoint_trees as trees
from tests.support.deployed import deploy
from tests.support.noting_cluster import NotingCluster
from tests.support.snapshots import RUNNING
from tests.support.story import FOLLOWING, OLD, OLD_DEPLOYMENT, released, requested, wanted, write
from tests.support.tasks import context


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = {"conn_type": "spark", "host": "spark://127.0.0.1", "port": 1, "extra": {"rest_port": 1}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_NOWHERE", json.dumps(nowhere))
    broker = {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_NOWHERE", json.dumps(broker))


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    for folder in ("streams", "apps"):
        (tmp_path / folder).mkdir()
    (tmp_path / "apps" / "a.py").write_text("x = 1\n")
    fields = (
        f"name: s\napplication: apps/a.py\nversion: v1\ncluster: spark_nowhere\ncontrol: file://{tmp_path}/control\n"
    )
    (tmp_path / "streams" / "s.yaml").write_text(fields)
    make_root(f"file://{tmp_path}/control")
    return load_spec(tmp_path / "streams" / "s.yaml")


def refusal(spec: StreamSpec, **settings: Any) -> str:
    with pytest.raises(AirflowFailException) as caught:
        CheckReleaseOperator(task_id="check", stream=spec, **settings).execute(context())
    return str(caught.value)


@pytest.mark.parametrize(
    ("fields", "settings", "says"),
    [
        ({}, {"application": "apps/none.py"}, "There is no file"),
        ({}, {"arguments": '["-n1", "import os"]'}, "The arguments are not those of s.yaml"),
        ({}, {"arguments": '["--password=hunter2"]'}, "looks like a secret"),
        ({}, {"reason": "password=hunter2"}, "looks like a secret"),
        ({}, {"strategy": "hope"}, "There is no strategy 'hope'. There are handover and restart"),
        ({"kafka": "kafka_nowhere"}, {}, "Kafka at 127.0.0.1:1 (connection 'kafka_nowhere') does not answer"),
        ({"cluster": "no_such"}, {}, "Create 'no_such' (type spark_standalone or spark_yarn or spark_kubernetes)"),
    ],
)
def test_what_cannot_be_used_is_refused(
    spec: StreamSpec, fields: dict[str, str], settings: dict[str, str], says: str
) -> None:
    said = refusal(spec.model_copy(update=fields), **settings)
    assert says in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    "name", ["{lib}/timeit.py", "../secret.py", "link.py", "airflow.cfg", "large.py", "/proc/1/environ", "/a.py"]
)
def test_an_application_that_is_none_is_refused_and_nothing_is_copied(
    spec: StreamSpec, tmp_path: Path, name: str
) -> None:
    (tmp_path.parent / "secret.py").write_text("x = 1\n")
    (tmp_path / "link.py").symlink_to(tmp_path.parent / "secret.py")
    (tmp_path / "airflow.cfg").write_text("[core]\n")
    with open(tmp_path / "large.py", "wb") as file:
        file.truncate(MAX_SCRIPT_BYTES + 1)
    name = name.format(lib=Path(timeit.__file__).parent)
    said = refusal(spec, application=name)
    assert any(reason in said for reason in ("is outside", "is not a .py file", "are allowed"))
    requested = RequestedRelease.of(spec, None, name, None, None)
    hook = StreamHook(spec.name, spec.control, spec.cluster)
    want = Want({"wish": "w", "goal": "hold"}, publish=True)
    for act in (hook.releases.publish, lambda each: hook.wish(want, "t", 0, each)):
        with pytest.raises(SpecError):
            act(requested)
    assert not (tmp_path / "control" / "orders").exists()


def test_a_task_knows_the_bundle_of_its_dag(spec: StreamSpec, tmp_path: Path) -> None:
    with DAG("d") as dag:
        task = CheckReleaseOperator(task_id="check", stream=spec)
    found = []
    # Nothing yet; in a bundle; what Airflow writes where there is none.
    for relative in (None, "team/dag.py", f"{tmp_path}/team/dag.py"):
        dag.fileloc, dag.relative_fileloc = f"{tmp_path}/team/dag.py", relative
        found.append(task.requested.bundle)
    assert found == [None, tmp_path, None]


def with_approval(spec: StreamSpec) -> StreamSpec:
    found = spec.model_copy(update={"upgrade": spec.upgrade.model_copy(update={"approval": True})})
    found._source = spec.source
    return found


def test_with_an_approval_another_strategy_than_the_yamls_is_refused(spec: StreamSpec) -> None:
    """`restart` stops the old release before anybody is asked."""
    asked = with_approval(spec)
    assert "The strategy is restart, and s.yaml says handover" in refusal(asked, strategy="restart")
    for allowed, strategy in ((asked, "handover"), (asked, ""), (spec, "restart")):
        assert "127.0.0.1" in refusal(allowed, strategy=strategy), "it is refused for its cluster"


def test_later_tasks_are_told_what_was_checked(spec: StreamSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "open_cluster", lambda connection: NotingCluster())
    for given, strategy in (("", "handover"), ("restart", "restart")):
        left = CheckReleaseOperator(task_id="check", stream=spec, strategy=given).execute(context())
        assert (left["version"], left["strategy"], left["holder"]) == ("v1", strategy, "")
        assert (left["application"], left["release"]["application"]) == ("apps/a.py", "a.py")
        assert left["release"]["hash"] == left["hash"]
        assert left["approval"] is False
    assert CheckReleaseOperator(task_id="check", stream=with_approval(spec)).execute(context())["approval"] is True


def test_a_script_with_a_syntax_error(spec: StreamSpec) -> None:
    spec.path("apps/a.py").write_text("if:\n")
    assert "a.py, line 1: this is not Python" in refusal(spec)


def test_an_unreachable_master(spec: StreamSpec) -> None:
    said = refusal(spec)
    assert "127.0.0.1" in said
    assert open_log(spec.control, spec.name).records() == []


def test_a_control_folder_that_cannot_be_made(spec: StreamSpec, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be used now" in refusal(spec.model_copy(update={"control": f"file://{tmp_path}/file/control"}))


def checked(spec: StreamSpec, cluster: NotingCluster, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Any:
    """Return what the task leaves, or the text with which it fails."""
    monkeypatch.setattr(stream, "open_cluster", lambda connection: cluster)
    try:
        return CheckReleaseOperator(task_id="check", stream=spec, **settings).execute(context())
    except AirflowFailException as error:
        return str(error)


def holding(spec: StreamSpec, checkpoint: Path) -> None:
    """Let a driver hold the stream, with one query on a checkpoint."""
    said = [{"name": "lines", "checkpoint": str(checkpoint), "sources": []}]
    records = [
        replace(each, fields={**each.fields, "queries": said}) if each.kind == "standby" else each for each in RUNNING
    ]
    make_root(spec.control)
    write(ControlLog(FilesRoot(spec.control).store(spec.name, create=True), spec.name), *records)


def test_where_there_is_no_room_for_two_a_restart_is_proposed(
    spec: StreamSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = NotingCluster()
    full.full = ClusterError("There is no room.", next_step="Stop one.", free_cores=1)
    assert "`restart`" not in checked(spec, full, monkeypatch), "nobody holds, so there is room for none"
    holding(spec, tmp_path / "none")
    said = checked(spec, full, monkeypatch)
    assert (
        "There is no room. Stop one. Or trigger again with the strategy `restart`: the old release is stopped" in said
    )
    assert "upgrade.strategy: restart" in checked(with_approval(spec), full, monkeypatch)
    assert "`restart`" not in checked(spec, full, monkeypatch, strategy="restart")


def test_an_instance_that_the_log_does_not_know_is_refused_and_one_that_has_ended_is_shown(
    spec: StreamSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holding(spec, tmp_path / "none")
    cluster = NotingCluster()
    cluster.runs = {"app-1": OLD_DEPLOYMENT}
    assert checked(spec, cluster, monkeypatch)["findings"] == []
    cluster.runs["app-2"] = "s-9-ffff"
    said = checked(spec, cluster, monkeypatch)
    assert "The cluster runs app-2 for this stream, of the deployment s-9-ffff" in said
    assert "Nothing was touched." in said


def test_while_a_job_is_about_to_be_adopted_no_upgrade_begins(
    spec: StreamSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one by `upgrade.schedule`: it would end what is to follow that job, and take its checkpoints."""
    make_root(spec.control)
    log = ControlLog(FilesRoot(spec.control).store(spec.name, create=True), spec.name)
    write(log, *FOLLOWING)
    said = checked(spec, NotingCluster(), monkeypatch)
    assert f"{OLD_DEPLOYMENT} is to follow a job that may write its checkpoints still. Nothing was touched." in said
    assert len(log.records()) == len(FOLLOWING)


def test_a_checkpoint_that_is_not_whole_is_refused_unless_it_is_dropped_on_purpose(
    spec: StreamSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = trees.new(tmp_path / "checkpoint")
    trees.plan(root, 0, "-")
    trees.commit(root, 0)
    holding(spec, root)
    assert checked(spec, NotingCluster(), monkeypatch)["findings"] == []
    (root / "metadata").unlink()
    said = checked(spec, NotingCluster(), monkeypatch)
    assert "The checkpoint is not whole" in said
    assert "Nothing was touched." in said
    dropped = checked(spec, NotingCluster(), monkeypatch, changed_checkpoints=[str(root)])
    assert dropped["findings"] == []


def test_a_checkpoint_elsewhere_is_left_to_its_driver(
    spec: StreamSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holding(spec, Path("/no/such/mount/checkpoint"))
    [found] = checked(spec, NotingCluster(), monkeypatch)["findings"]
    assert found == (
        "Whether the checkpoint of the query lines is whole, its new driver will see: it is not mounted here."
    )


def test_a_stored_release_is_checked_without_the_files_of_the_yaml(
    spec: StreamSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "open_cluster", lambda connection: NotingCluster())
    hook = StreamHook(spec.name, spec.control, spec.cluster)
    hook.create()
    stored = deploy(hook, RequestedRelease.of(spec), "s-v1-1a2b3c4d", "test")
    wanted = json.dumps({"to": 1764000000.0, "queries": {"out": {"orders": {"0": 7}}}})
    assert "by a stored release alone" in refusal(spec, rewind=wanted)
    spec.path("apps/a.py").unlink()
    left = CheckReleaseOperator(
        task_id="check", stream=spec, version="v9", arguments='["--other"]', stored=stored.hash[:8], reason="why"
    ).execute(context())
    assert (left["version"], left["release"], left["redeployed"]) == ("v1", stored.to_json(), True)
    assert left["application"] == "a.py"
    assert left["rewind"] == ""
    assert "does not say who held the stream" in refusal(spec, stored=stored.hash, rewind=wanted)
    assert "fill in nothing by hand" in refusal(spec, stored=stored.hash, rewind="2h")
    assert "no stored release of which the hash begins with 'ffff'" in refusal(spec, stored="ffff")


def test_a_rewind_is_of_the_driver_that_held_when_a_person_said_yes_to_it(
    spec: StreamSpec, cluster: NotingCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Found by a review: the form asks for an hour, in which another rewind was done, or another release deployed.

    The records were read twice again then, and the stream was set back to the old release, without a word.
    """
    holding(spec, tmp_path / "lines")
    hook = StreamHook(spec.name, spec.control, spec.cluster)

    stored = deploy(hook, RequestedRelease.of(spec), "s-v1-1a2b3c4d", "somebody").hash

    def begins(held: str) -> Any:
        wanted = json.dumps({"to": 1764000000.0, "queries": {"out": {"orders": {"0": 7}}}, "held": held})
        return checked(spec, cluster, monkeypatch, stored=stored, rewind=wanted)

    assert json.loads(begins(OLD_DEPLOYMENT)["rewind"])["held"] == OLD_DEPLOYMENT
    said = begins("s-v1-1a2b3c4d")
    assert f"s-v1-1a2b3c4d held the stream when it was asked for, and {OLD_DEPLOYMENT} does now." in said
    write(hook.control_log, wanted("rest", "stop"), requested("stop", None, wish="rest"), released(OLD, "stop", None))
    assert f"{OLD_DEPLOYMENT} held the stream when it was asked for, and nobody does now." in begins(OLD_DEPLOYMENT)
    write(hook.control_log, wanted("mine", family="old", by="airflow:dag/run/hand_over"))
    assert begins(OLD_DEPLOYMENT)["redeployed"], "it is cleared, and has stopped the stream itself"


@pytest.mark.parametrize(("unasked", "begins"), [("True", False), ("False", True), (False, True)])
def test_what_a_person_has_stopped_only_a_person_starts(
    unasked: bool | str,
    begins: bool,
    spec: StreamSpec,
    cluster: NotingCluster,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """It ran again at four in the morning, though nobody had started it."""
    holding(spec, tmp_path / "lines")
    log = ControlLog(FilesRoot(spec.control).store(spec.name), spec.name)
    write(log, wanted("rest", "stop"), requested("stop", None, wish="rest"), released(OLD, "stop", None))
    said = checked(spec, cluster, monkeypatch, unasked=unasked)
    assert ("and only a person starts it" in said) is not begins
