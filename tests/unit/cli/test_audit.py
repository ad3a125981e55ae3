"""`airflow streams audit`: both parts in one report, and the exit code by the worst finding."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.cli import commands
from airflow_stream_provider.clusters import UnmanagedView
from airflow_stream_provider.clusters.cluster import DriverState
from airflow_stream_provider.hooks.audit import audit_job
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.record import Record
from tests.support.commands import Here
from tests.support.story import RUNNING, write

SAID = {
    "spark": "4.0.0",
    "conf": {"spark.master": "spark://master:7077", "spark.speculation": "true", "spark.ui.retainedStages": "100"},
    "heap_max": 2**30,
    "nofile": 65_536,
    "places": {"checkpoint of orders": {"path": "/c", "mount": "nfs4", "replication": None}},
}
QUERY = {"name": "orders", "sink": "foreachBatch", "file_sink": False, "checkpoint": "/c", "sources": []}


def runs(here: Here, **said: Any) -> None:
    """A driver of the stream holds it, and has said its settings."""

    def told(each: Record) -> Record:
        fields = {**each.fields, "queries": [QUERY], "environment": said}
        return replace(each, fields=fields) if each.kind == "standby" else each

    write(here.log, *map(told, RUNNING))


def call(here: Here, **more: Any) -> tuple[int, Any]:
    given = {"kafka": False, "spark": False, "fail_on": "high", "json": False, "verbose": False, **more}
    with pytest.raises(SystemExit) as found:
        commands.audit(Namespace(name="orders", folder=str(here.folder), **given))
    return int(found.value.code or 0), here.said()


def test_what_is_bad_enough_is_the_exit_code(here: Here) -> None:
    runs(here, **SAID)
    code, said = call(here)
    assert code == 1
    assert "HIGH speculation, query orders: spark.speculation is true, and the sink is foreachBatch" in said.out
    assert '-  spark.speculation: "true"\n+  spark.speculation: "false"' in "\n".join(
        map(str.strip, said.out.split("\n"))
    )
    assert "Why: Both copies of a task write" in said.out
    assert call(here, fail_on="critical")[0] == 0


def test_programs_get_the_report_of_the_operators(here: Here) -> None:
    runs(here, **SAID)
    code, said = call(here, json=True, spark=True)
    report = json.loads(said.out)
    assert code == 1
    assert report["topics"] == []
    assert "speculation" in [each["check"] for each in report["findings"] if each["severity"] == "high"]


def test_a_part_that_cannot_be_audited_is_told(here: Here) -> None:
    runs(here)
    code, said = call(here)
    assert (code, "No driver of orders has said with which settings it runs" in said.err) == (3, True)
    code, said = call(here, kafka=True)
    assert (code, "The stream orders names no Kafka connection" in said.err) == (3, True)


def test_a_job_is_audited_before_it_is_adopted(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = StreamHook("orders", here.control, "spark_default")
    here.cluster.foreign = {"app-1-1": UnmanagedView("app-1-1", DriverState.RUNNING)}
    assert audit_job(hook, "app-1-1") == []  # this cluster cannot tell
    conf = {"spark.master": "yarn", "spark.driver.extraJavaOptions": "-XX:+ExitOnOutOfMemoryError"}
    monkeypatch.setattr(here.cluster, "unmanaged_settings", lambda id: ("4.0.0", conf))
    assert [each.split(":")[1] for each in audit_job(hook, "app-1-1")] == [" HIGH executor-failures-expire, the driver"]
