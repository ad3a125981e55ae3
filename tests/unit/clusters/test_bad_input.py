"""What a person gets wrong about a cluster: one sentence of the first task, before anything is declared or sent.

An image that does not exist is only known once its pod is there: `tests/integration/clusters/test_kubernetes.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_stream_provider.clusters import ClusterConnection
from airflow_stream_provider.clusters.connection import ADDRESS
from airflow_stream_provider.control import make_root, open_log
from airflow_stream_provider.operators.check import CheckReleaseOperator
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from devstack.kubernetes import NAMESPACE
from devstack.ports import HOST, free_port
from tests.support.fake_yarn import FakeYarn
from tests.support.pods import Pods, template

QUEUE = {
    "queuePath": "root.default",
    "queueType": "leaf",
    "state": "RUNNING",
    "AMResourceLimit": {"memory": 2048},
    "maxEffectiveCapacity": {"memory": 8192},
    "resourcesUsed": {"memory": 0},
}
FULL = {"usedAMResource": {"memory": 2048}}


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    for folder in ("streams", "apps"):
        (tmp_path / folder).mkdir()
    (tmp_path / "apps" / "a.py").write_text("x = 1\n")
    control = f"file://{tmp_path}/control"
    fields = {"name": "s", "application": "apps/a.py", "version": "v1", "cluster": "there", "control": control}
    (tmp_path / "streams" / "s.yaml").write_text(json.dumps(fields))
    make_root(control)
    return load_spec(tmp_path / "streams" / "s.yaml")


@pytest.fixture
def check(spec: StreamSpec, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run the first task of an upgrade on the cluster of a connection."""

    def run(connection: ClusterConnection, **settings: Any) -> Any:
        fields = {"host": connection.host, "login": connection.login, "password": connection.password}
        given = {"conn_type": "spark", **fields, "extra": dict(connection.extra)}
        monkeypatch.setenv("AIRFLOW_CONN_THERE", json.dumps(given))
        ti = SimpleNamespace(dag_id="dag", run_id="run", task_id="check", map_index=-1, xcom_push=lambda **_: None)
        context: Any = {"ti": ti}
        return CheckReleaseOperator(task_id="check", stream=spec, **settings).execute(context)

    return run


def is_refused(check: Callable[..., Any], connection: ClusterConnection, spec: StreamSpec) -> str:
    """Return the sentence with which the task fails; nothing was declared."""
    with pytest.raises(AirflowFailException) as refused:
        check(connection)
    said = str(refused.value)
    assert "\n" not in said
    assert open_log(spec.control, spec.name).records() == []
    return said


@pytest.mark.parametrize(
    ("queue", "extra", "said"),
    [
        ({}, {"queue": "nowhere"}, "YARN has no queue 'nowhere'; it has root.default."),
        (FULL, {}, "The queue root.default has no room for another driver: its drivers may have 2048 MiB "),
        ({"resourcesUsed": {"memory": 8000}}, {}, "The queue root.default has no room: 8000 of its 8192 MiB"),
        ({}, {ADDRESS: "http://127.0.0.1:1"}, "http://127.0.0.1:1 cannot be reached. Start it, or correct"),
        ({}, {"principal": "a@B"}, "it has a principal for Kerberos, and no keytab"),
    ],
)
def test_on_yarn(
    fake: FakeYarn,
    spec: StreamSpec,
    check: Callable[..., Any],
    queue: dict[str, Any],
    extra: dict[str, str],
    said: str,
) -> None:
    fake.add_node()
    fake.scheduler = {"type": "capacityScheduler", "queues": {"queue": [{**QUEUE, **queue}]}}
    assert said in is_refused(check, fake.connection(**extra), spec)
    assert (fake.handed_out, fake.sent) == (0, [])


def test_a_resource_manager_that_wants_kerberos(fake: FakeYarn, spec: StreamSpec, check: Callable[..., Any]) -> None:
    fake.answers["GET info"] = (401, {})
    assert "wants Kerberos. Write principal and keytab into the extra" in is_refused(check, fake.connection(), spec)


def test_an_upgrade_that_ends_the_old_driver_first_needs_no_room_beside_it(
    fake: FakeYarn, check: Callable[..., Any]
) -> None:
    for _ in range(2):
        fake.add_node()
    fake.scheduler = {"type": "capacityScheduler", "queues": {"queue": [{**QUEUE, **FULL}]}}
    assert check(fake.connection(), room="False")["version"] == "v1"


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"template": template(command=["sh"])}, "The pod template cannot be used: its container has command. Remove"),
        ({"namespace": ""}, "namespace in the extra is ''"),
    ],
)
def test_on_kubernetes_what_is_wrong_in_the_connection(
    pods: Pods, spec: StreamSpec, check: Callable[..., Any], extra: dict[str, Any], said: str
) -> None:
    assert said in is_refused(check, pods.connection(**extra), spec)
    assert pods.server.pods() == []


@pytest.mark.parametrize(
    ("right", "said"),
    [("create-pods", "does not allow it: "), ("list-resourcequotas", 'cannot list resource "resourcequotas"')],
)
def test_on_kubernetes_a_right_that_is_missing(
    pods: Pods, spec: StreamSpec, check: Callable[..., Any], right: str, said: str
) -> None:
    pods.server.ask("POST", f"/stand-in/deny/{right}")
    assert said in is_refused(check, pods.connection(), spec)
    assert pods.server.pods() == []


@pytest.mark.parametrize(
    ("hard", "said"),
    [({"limits.memory": "1Mi"}, "exceeded quota: team"), ({"pods": "2"}, "2 of pods are free in the quota team")],
)
def test_on_kubernetes_a_full_quota(
    pods: Pods, spec: StreamSpec, check: Callable[..., Any], hard: dict[str, str], said: str
) -> None:
    quota = {"metadata": {"name": "team"}, "spec": {"hard": hard}}
    pods.server.ask("POST", f"namespaces/{NAMESPACE}/resourcequotas", quota)
    assert said in is_refused(check, pods.connection(), spec)
    assert pods.server.pods() == []
    assert check(pods.connection(), room="False")["version"] == "v1"


def test_an_api_server_that_cannot_be_reached(spec: StreamSpec, check: Callable[..., Any]) -> None:
    extra = {"namespace": NAMESPACE, "image": "i", "service_account": "s"}
    nowhere = ClusterConnection(f"k8s://http://{HOST}:{free_port()}", None, extra, password="hush")
    said = is_refused(check, nowhere, spec)
    assert "cannot be reached. Check the address" in said
    assert "hush" not in said
