"""The variables with which the contract runs on a cluster of one's own lead to that; here to ones that only pretend."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from airflow_stream_provider.clusters import open_cluster
from airflow_stream_provider.clusters.yarn_kerberos import KerberosYarnCluster
from devstack.kubernetes import NAMESPACE
from tests.support import real_kubernetes, real_yarn
from tests.support.fake_yarn import STARTED, FakeYarn
from tests.support.jobs import job
from tests.support.keytabs import keytab
from tests.support.pods import Pods

PAGE = (Path(__file__).parents[3] / "docs" / "own_cluster.md").read_text()

OPTIONAL = ("YARN_PYTHON", "YARN_QUEUE", "YARN_WORKER_HOSTS", "YARN_PRINCIPAL", "YARN_KEYTAB")


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*real_yarn.NEEDED, *real_kubernetes.NEEDED, *OPTIONAL):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("real", [real_yarn, real_kubernetes], ids=lambda module: module.__name__)
def test_every_variable_that_is_missing_is_named_and_documented(real: object, monkeypatch: pytest.MonkeyPatch) -> None:
    needed: Iterable[str] = real.NEEDED  # type: ignore[attr-defined]
    assert real.missing() == list(needed)  # type: ignore[attr-defined]
    for name in needed:
        assert f"`{name}`" in PAGE
        monkeypatch.setenv(name, "x")
    assert real.missing() == []  # type: ignore[attr-defined]


def test_a_yarn_is_asked_as_the_variables_say(fake: FakeYarn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"YARN_RM": fake.url, "YARN_USER": "alice", "YARN_SPARK_HOME": "/opt/spark", "YARN_SHARED": str(tmp_path)}
    for name, value in {**given, "YARN_QUEUE": "narrow"}.items():
        monkeypatch.setenv(name, value)
    assert real_yarn.root() == tmp_path
    id = open_cluster(real_yarn.connection()).submit(job(log="0a" * 16))
    assert id == f"application_{STARTED}_0001"
    assert fake.sent[0]["queue"] == "narrow"


def test_a_yarn_with_kerberos_is_one_with_a_principal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keytab").write_bytes(keytab("alice"))
    given = {"YARN_RM": "http://rm:8088", "YARN_USER": "alice", "YARN_SPARK_HOME": "/opt/spark"}
    for name, value in {**given, "YARN_PRINCIPAL": "alice@A", "YARN_KEYTAB": str(tmp_path / "keytab")}.items():
        monkeypatch.setenv(name, value)
    assert isinstance(open_cluster(real_yarn.connection()), KerberosYarnCluster)
    for name in OPTIONAL:
        assert f"`{name}`" in PAGE


def test_a_kubernetes_is_asked_as_the_variables_say(
    pods: Pods, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = pods.server.extra
    container = {"name": "spark-kubernetes-driver", "image": extra["image"]}
    template = {"spec": {"serviceAccountName": extra["service_account"], "containers": [container]}}
    for name, content in {"config": pods.kube_config(), "pod.yaml": template}.items():
        (tmp_path / name).write_text(yaml.safe_dump(content))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("STREAM_TEST_NAMESPACE", NAMESPACE)
    monkeypatch.setenv("STREAM_TEST_TEMPLATE", str(tmp_path / "pod.yaml"))
    monkeypatch.setenv("STREAM_TEST_ROOT", str(tmp_path))
    assert real_kubernetes.root() == tmp_path
    submission = open_cluster(real_kubernetes.connection()).submit(pods.job())
    assert pods.pod(submission)["metadata"]["namespace"] == NAMESPACE
