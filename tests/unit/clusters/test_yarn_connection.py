"""What an Airflow connection to YARN may say."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.clusters import ClusterConnection, open_cluster
from airflow_stream_provider.clusters.connection import ADDRESS, KerberosLogin, YarnSettings
from airflow_stream_provider.clusters.yarn import YarnCluster
from airflow_stream_provider.lifecycle.errors import SpecError
from tests.support.keytabs import in_base64, keytab

KEYTAB = in_base64(keytab("alice"))
ENOUGH = {ADDRESS: "http://rm1:8088", "spark_home": "/opt/spark"}


def connection(login: str = "alice", **extra: Any) -> ClusterConnection:
    return ClusterConnection("yarn", extra={**ENOUGH, **extra}, login=login)


def test_what_is_not_said_has_its_default() -> None:
    settings = YarnSettings.of(connection())
    assert settings == YarnSettings(("http://rm1:8088",), "alice", "/opt/spark", "default", "python3", ())
    assert isinstance(open_cluster(connection()), YarnCluster)


def test_all_is_read() -> None:
    said: dict[str, Any] = {
        ADDRESS: "rm1, https://rm2:8090/",
        "spark_home": "/opt/spark-4/",
        "queue": "root.streams.eu",
        "python": "/opt/python/bin/python3.11",
        "worker_hosts": "*.example, 10.1.0.0/16",
        "deploy-mode": "client",
        "principal": None,
    }
    assert YarnSettings.of(connection(**said)) == YarnSettings(
        ("http://rm1:8088", "https://rm2:8090"),
        "alice",
        "/opt/spark-4",
        "root.streams.eu",
        "/opt/python/bin/python3.11",
        ("*.example", "10.1.0.0/16"),
    )


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (connection(login=""), "login ''"),
        (connection(login="a b"), "login 'a b'"),
        (connection(spark_home=""), "spark_home in the extra is ''"),
        (connection(spark_home="opt/spark"), "spark_home in the extra is 'opt/spark'"),
        (connection(spark_home="/opt/$(id)"), "spark_home"),
        (connection(python="python; id"), "python in the extra is 'python; id'"),
        (connection(queue="a b"), "queue in the extra is 'a b'"),
        (connection(**{ADDRESS: ""}), f"{ADDRESS} in the extra has ''"),
        (connection(**{ADDRESS: "rm1,,rm2"}), f"{ADDRESS} in the extra has ''"),
        (connection(**{ADDRESS: "ftp://rm1"}), "'ftp://rm1'"),
        (connection(**{ADDRESS: "http://rm1:8088/cluster"}), "'http://rm1:8088/cluster'"),
        (connection(principal="alice@EXAMPLE"), "it has a principal for Kerberos, and no keytab"),
        (connection(keytab="x"), "it has a keytab for Kerberos, and no principal"),
        (connection(principal="a b@C", keytab=KEYTAB), "principal in the extra is 'a b@C'"),
        (connection(principal="a", keytab="/etc/a.keytab"), "keytab in the extra is no keytab in base64"),
        (connection(principal="a", keytab=in_base64(b"hush")), "keytab in the extra is no keytab in base64"),
        (connection(principal="a", keytab=KEYTAB, **{"spark-binary": "sh"}), "spark-binary in the extra is 'sh'"),
    ],
)
def test_what_cannot_be_used_is_refused_and_named(bad: ClusterConnection, named: str) -> None:
    with pytest.raises(SpecError) as refused:
        open_cluster(bad)
    assert named in str(refused.value)
    assert refused.value.next_step
    assert not any(secret in str(refused.value) for secret in ("hush", "a.keytab", KEYTAB, in_base64(b"hush")))


def test_who_is_asked_as_is_read_from_the_fields_of_the_spark_provider() -> None:
    folded = "\n".join(KEYTAB[start : start + 76] for start in range(0, len(KEYTAB), 76))  # as `base64` says it
    found = YarnSettings.of(connection(login="", principal="alice/edge1@EXAMPLE.COM", keytab=folded))
    assert found.user == "alice"
    assert found.kerberos == KerberosLogin("alice/edge1@EXAMPLE.COM", keytab("alice"))
    assert found.spark_submit == "spark-submit"
    assert YarnSettings.of(connection(principal="alice", keytab=KEYTAB, login="bob")).user == "bob"


def test_a_password_in_an_address_is_not_shown() -> None:
    with pytest.raises(SpecError, match="has a user or a password") as refused:
        YarnSettings.of(connection(**{ADDRESS: "http://alice:hush@rm1:8088"}))
    assert "hush" not in str(refused.value)
