"""What the clusters differ in is data of their classes, and the documentation shows just that."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

from airflow_stream_provider.clusters import ClusterConnection, open_cluster, processes
from airflow_stream_provider.clusters.cluster import Traits
from airflow_stream_provider.clusters.kubernetes import KubernetesCluster
from airflow_stream_provider.clusters.local import LocalCluster
from airflow_stream_provider.clusters.standalone import StandaloneCluster
from airflow_stream_provider.clusters.yarn import YarnCluster
from airflow_stream_provider.clusters.yarn_connection import ADDRESS, YarnSettings
from airflow_stream_provider.clusters.yarn_kerberos import KerberosYarnCluster

CLUSTERS = (StandaloneCluster, YarnCluster, KerberosYarnCluster, KubernetesCluster, LocalCluster)
PAGE = (Path(__file__).parents[3] / "docs" / "clusters.md").read_text()


def table(*clusters: Traits) -> str:
    """Return a Markdown table, with a row for each trait."""
    rows = {
        "time after SIGTERM": [f"{each.seconds_after_term:g} s" for each in clusters],
        "id before it starts": ["yes" if each.reserves_ids else "no" for each in clusters],
        "relaunches": [each.relaunched_by for each in clusters],
        "gone": [each.gone_means for each in clusters],
        "lost machine": [each.lost_machine for each in clusters],
    }
    assert len(rows) == len(fields(Traits)) - 1
    lines = [("", *(each.name for each in clusters)), ("---",) * (len(clusters) + 1)]
    lines += [(name, *cells) for name, cells in rows.items()]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines).replace("|  |", "| |")


def test_the_table_of_the_page_is_that_of_the_classes() -> None:
    assert table(*(each.traits for each in CLUSTERS)) in PAGE


def test_who_reserves_ids_says_so() -> None:
    assert [each.traits.name for each in CLUSTERS if each.traits.reserves_ids] == ["YARN", "YARN with Kerberos"]
    assert LocalCluster.traits.seconds_after_term == processes.GRACE


def test_the_connection_of_the_page_is_one_to_yarn() -> None:
    (made,) = re.findall(r"airflow connections add yarn_streams --conn-type spark (.*?)\n```", PAGE, re.S)
    fields = dict(re.findall(r"--conn-(\w+) ('[^']*'|\S+)", made))
    extra = json.loads(fields["extra"].strip("'"))
    connection = ClusterConnection(fields["host"], extra=extra, login=fields["login"])
    assert isinstance(open_cluster(connection), YarnCluster)
    assert YarnSettings.of(connection) == YarnSettings(
        ("http://rm1.example.org:8088", "http://rm2.example.org:8088"),
        "streams",
        "/opt/spark",
        "root.streams",
        "/opt/python/bin/python3",
    )
    assert ADDRESS in extra
