"""What the operators that take a release do with it: the id they push, what they declare, what a timeout says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.control import open_log
from airflow_stream_provider.lifecycle.errors import ClusterError
from airflow_stream_provider.operators.upgrade import SubmitStandbyOperator
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.noting_cluster import NotingCluster
from tests.support.tasks import IDENTITY, context, run, waits

TIMEOUT = WaitOutcome(Ended.TIMEOUT, reason="Timed out.")


@pytest.fixture
def spec(spec: StreamSpec, tmp_path: Path) -> StreamSpec:
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "b.py").write_text("x = 2\n")
    free = spec.upgrade.model_copy(update={"free_arguments": True})
    found = spec.model_copy(update={"application": "a.py", "upgrade": free})
    found._source = tmp_path / "streams" / "orders.yaml"
    return found


def submit(spec: StreamSpec, **form: Any) -> SubmitStandbyOperator:
    return SubmitStandbyOperator(task_id="t", stream=spec, **form)


def test_the_family_is_pushed_before_anything_can_fail(spec: StreamSpec, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    pushed: dict[str, Any] = {}
    nowhere = spec.model_copy(update={"control": f"file://{tmp_path}/file/control"})
    with pytest.raises(Exception, match="cannot be used now"):
        submit(nowhere, version="3").execute(context(pushed))
    assert pushed == {"family": IDENTITY.wish}


def test_a_new_streams_log_is_made_and_the_forms_release_wished_and_submitted(
    spec: StreamSpec, tmp_path: Path, cluster: NotingCluster
) -> None:
    form = {
        "version": "3",
        "application": f"{tmp_path}/b.py",
        "arguments": '["--from", "x y"]',
        "changed_checkpoints": ["/old"],
        "reason": "a person wants it",
    }
    waits(submit(spec, **form))
    log = open_log(spec.control, spec.name)
    wish, declared, submitted = log.records()
    assert (wish.kind, wish["wish"], wish["goal"]) == ("wanted", IDENTITY.wish, "stand_by")
    assert (wish["reason"], declared["reason"]) == ("a person wants it", "a person wants it")
    (found,) = log.refresh().family(IDENTITY.wish)
    assert (found.release.version, found.release.application, found.release.arguments) == (
        "3",
        "b.py",
        ("--from", "x y"),
    )
    assert found.policy.changed_checkpoints == ("/old",)
    assert (submitted.kind, submitted["submission"]) == ("submitted", "driver-1")
    assert cluster.searched == [], "nobody else can have submitted what was declared just now"


def test_a_second_try_goes_on_with_the_first_ones_wish(spec: StreamSpec, cluster: NotingCluster) -> None:
    for _ in range(2):
        waits(submit(spec))
    assert [r.kind for r in open_log(spec.control, spec.name).records()] == ["wanted", "declared", "submitted"]
    assert cluster.did == [("submit", "driver-1")]


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ({"application": "none.py"}, "There is no file"),
        ({"arguments": "{}"}, "`arguments` is not a JSON list"),
        ({"arguments": ["--password=hunter2"]}, "looks like a secret"),
    ],
)
def test_a_release_that_cannot_be_used_is_not_wished(
    spec: StreamSpec, cluster: NotingCluster, form: dict[str, Any], says: str
) -> None:
    open_log(spec.control, spec.name, create=True)
    with pytest.raises(AirflowFailException, match=says):
        run(submit(spec, **form))
    assert open_log(spec.control, spec.name).records() == []


def test_without_room_nothing_is_declared(spec: StreamSpec, cluster: NotingCluster) -> None:
    cluster.full = ClusterError("There are 2 free cores.")
    with pytest.raises(ClusterError, match="There are 2 free cores"):
        run(submit(spec))
    assert [r.kind for r in open_log(spec.control, spec.name).records()] == ["wanted"]


def test_a_timeout_says_what_the_cluster_knows(spec: StreamSpec, cluster: NotingCluster) -> None:
    open_log(spec.control, spec.name, create=True)
    with pytest.raises(AirflowFailException, match="It was not submitted yet"):
        run(submit(spec), TIMEOUT)
    waits(submit(spec))
    cluster.states["driver-1"] = DriverState.QUEUED
    with pytest.raises(AirflowFailException, match=DriverState.QUEUED.description):
        run(submit(spec), TIMEOUT)
    cluster.full = ClusterError("There are 2 free cores.")
    with pytest.raises(AirflowFailException, match=DriverState.QUEUED.description + " There are 2 free cores"):
        run(submit(spec), TIMEOUT)
