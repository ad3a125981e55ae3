"""What docs/clusters.md shows is valid: connections, pod template, rights. The stream's YAML is in test_docs.py."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import yaml

from airflow_stream_provider.clusters import ClusterConnection, open_cluster
from airflow_stream_provider.clusters.connection import ADDRESS, YarnSettings
from airflow_stream_provider.clusters.driver_pod import DRIVER_LABEL, FINALIZER, GRACE_SECONDS
from airflow_stream_provider.clusters.kubernetes import KILL_SECONDS
from airflow_stream_provider.clusters.kubernetes_connection import kubernetes_settings, read_template
from airflow_stream_provider.clusters.yarn import YarnCluster
from airflow_stream_provider.clusters.yarn_api import COME_SECONDS, SUBMIT_SECONDS
from airflow_stream_provider.clusters.yarn_kerberos import KerberosYarnCluster
from tests.support.keytabs import in_base64, keytab

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "clusters.md").read_text()


def connections() -> dict[str, dict[str, Any]]:
    """The connections that the page adds, as `airflow connections add` reads its options."""
    found = {}
    for block in re.findall(r"^```bash\n(airflow connections add .*?)^```", PAGE, re.M | re.S):
        for command in re.split(r"^airflow connections add ", block, flags=re.M)[1:]:
            name, *options = shlex.split(command.replace("\\\n", " "))
            found[name] = dict(zip(options[::2], options[1::2], strict=True))
    return found


def test_the_connections_lead_to_a_cluster() -> None:
    spark, kubernetes = connections()["spark_on_kubernetes"], connections()["k8s"]
    extra = json.loads(spark["--conn-extra"])
    assert extra["kubernetes_conn_id"] in connections()
    given = ClusterConnection(spark["--conn-host"], None, extra, kubernetes=json.loads(kubernetes["--conn-extra"]))
    assert given.is_kubernetes
    assert kubernetes_settings(given).namespace == "streams"


def test_the_connection_with_kerberos_leads_to_such_a_yarn() -> None:
    given = connections()["yarn_secured"]
    extra = json.loads(given["--conn-extra"].replace("$(base64 -w0 streams.keytab)", in_base64(keytab())))
    cluster = open_cluster(ClusterConnection(given["--conn-host"], None, extra))
    assert isinstance(cluster, KerberosYarnCluster)
    for seconds in (SUBMIT_SECONDS, COME_SECONDS):
        assert f"{seconds:.0f} s after the id was made" in PAGE


def test_the_connection_to_yarn_is_one() -> None:
    given = connections()["yarn_streams"]
    extra = json.loads(given["--conn-extra"])
    connection = ClusterConnection(given["--conn-host"], extra=extra, login=given["--conn-login"])
    assert isinstance(open_cluster(connection), YarnCluster)
    assert YarnSettings.of(connection) == YarnSettings(
        ("http://rm1.example.org:8088", "http://rm2.example.org:8088"),
        "streams",
        "/opt/spark",
        "root.streams",
        "/opt/python/bin/python3",
    )
    assert ADDRESS in extra


def test_the_template_names_image_and_service_account() -> None:
    template = (DOCS / "examples" / "driver_pod.yaml").read_text()
    read_template(template)
    given = ClusterConnection(
        "k8s://", None, {"kubernetes_conn_id": "k8s", "namespace": "streams", "template": template}, kubernetes={}
    )
    assert kubernetes_settings(given).image


def test_the_rights_are_those_that_are_used() -> None:
    ours, nodes, _ = yaml.safe_load_all((DOCS / "examples" / "kubernetes_rights.yaml").read_text())
    rights = {(resource, verb) for rule in ours["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    pods = {"get", "list", "create", "patch", "delete", "deletecollection"}
    assert rights == {("resourcequotas", "list"), ("pods/log", "get"), *(("pods", verb) for verb in pods)}
    assert (nodes["kind"], nodes["rules"][0]["resources"], nodes["rules"][0]["verbs"]) == (
        "ClusterRole",
        ["nodes"],
        ["get"],
    )


def test_the_page_says_what_the_class_says() -> None:
    for text in (
        f"`{DRIVER_LABEL}`",
        f"`{FINALIZER}`",
        f"{KILL_SECONDS:.0f} s when we kill it; {GRACE_SECONDS} s when others do",
    ):
        assert text in PAGE
