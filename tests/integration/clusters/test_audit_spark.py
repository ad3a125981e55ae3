"""A real driver and its real cluster are audited: what runs is found, and each cluster says what it knows of itself."""

from __future__ import annotations

import json
import shutil
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest

from airflow_stream_provider.audit import CheckResult
from airflow_stream_provider.cli import commands
from airflow_stream_provider.clusters.yarn import NM_SETTINGS, RM_SETTINGS
from airflow_stream_provider.control import make_root
from airflow_stream_provider.hooks.audit import audit_job, audit_spark
from airflow_stream_provider.hooks.preflight import preflight, refuse
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.errors import ClusterError
from airflow_stream_provider.lifecycle.ids import request_id
from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.operators.audit import AuditFailed, SparkAuditOperator
from airflow_stream_provider.planning.steps import Want
from airflow_stream_provider.spec.requested_release import RequestedRelease
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from devstack.drivers import wait_for
from devstack.stack import LocalStack
from tests.support.deployed import deploy
from tests.support.places import SMALL, Place

APPLICATION = Path(__file__).parents[2] / "support" / "app_lines_files.py"
DEPLOYMENT = "orders-1-aaaa"
ROLLING = "spark.executor.logs.rolling.strategy"
OWN = {
    **SMALL,
    "spark.speculation": "true",
    "spark.executor.cores": "1",
    "spark.eventLog.enabled": "false",
    ROLLING: "size",
}


class Pushed(dict[str, object]):
    """Stands for the task instance: keeps what is pushed."""

    def xcom_push(self, key: str, value: object) -> None:
        self[key] = value


@pytest.fixture
def running(stack: LocalStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StreamSpec]:
    """A stream of files that a driver on the cluster holds, and that has written a line."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HERE", json.dumps(stack.spark.connection))
    for name in ("streams", "apps", "in"):
        (tmp_path / name).mkdir()
    shutil.copy(APPLICATION, tmp_path / "apps" / "lines.py")
    (tmp_path / "in" / "one.json").write_text('{"id": 1, "customer": "anna", "amount": 2}\n')
    url = f"file://{tmp_path / 'control'}"
    conf = "\n".join(f"  {name}: {json.dumps(value)}" for name, value in OWN.items())
    path = tmp_path / "streams" / "orders.yaml"
    path.write_text(
        f"name: orders\napplication: apps/lines.py\narguments: [{tmp_path}]\nversion: v1\ncluster: spark_here\n"
        f"control: {url}\nconf:\n{conf}\n"
    )
    make_root(url)
    spec = load_spec(path)
    hook = StreamHook.of(spec)
    hook.create()
    deploy(hook, RequestedRelease.of(spec), DEPLOYMENT, goal="hold")
    try:
        assert hook.submit(DEPLOYMENT, "me", first=True)
        standby = wait_for("a standby", lambda: next(iter(hook.control_log.refresh().incarnations), None), 180)
        ask(hook, str(standby))
        wait_for("a commit", lambda: (tmp_path / "checkpoints" / "lines" / "commits" / "0").exists(), 120)
        yield spec
        assert hook.wish(Want({"wish": "stop", "goal": "stop"}), "me", hook.control_log.refresh().seq)
        ask(hook, None)
        wait_for("the stop", lambda: hook.control_log.refresh().phase is StreamPhase.STOPPED)
    finally:
        hook.kill(DEPLOYMENT)
        logs = (stack.spark.folder / "work").glob("driver-*/stderr")
        print("".join(path.read_text()[-4000:] for path in logs))  # shown when the test fails
        wait_for("the cluster to be idle", lambda: stack.spark.status().get("coresused") == 0)


def ask(hook: StreamHook, to: str | None) -> None:
    seq = hook.control_log.refresh().seq
    fields = {"request": request_id("test", seq), "to": to, "expires": 2e9, "reason": "test"}
    assert hook.append("requested", "me", seq, **fields)


def test_a_driver_and_its_standalone_cluster_are_audited(
    running: StreamSpec, stack: LocalStack, capsys: pytest.CaptureFixture[str]
) -> None:
    hook = StreamHook.of(running)
    report = audit_spark(hook, hook.observe(history=False))
    found = {finding.check: finding for finding in report.findings}
    print([str(each) for each in report.findings])

    # What the record says of the driver, and the master of itself: here its recovery is below /tmp.
    assert found["checkpoint-storage"].subject == "query lines"
    assert found["local-dirs"].result is CheckResult.BROKEN
    assert (found["settings-without-effect"].subject, found["settings-without-effect"].result) == (
        f"setting {ROLLING}",
        CheckResult.NO_EFFECT,
    )
    assert found["file-sink-log"].fix.startswith('.option("retention"')
    # Files are not written twice by speculation: the commit of a task decides.
    assert "speculation" not in found
    assert "spark.excludeOnFailure.timeout" in found["exclude-on-failure"].fix
    assert found["master-recovery"].found.startswith("spark.deploy.recoveryDirectory is /tmp")
    assert {"spread", "executor-log", "dead-executor-folders", "event-log", "ulimit"} & {*report.held} >= {
        "spread",
        "executor-log",
        "dead-executor-folders",
        "event-log",
    }

    # The operator fails by it, and leaves the report.
    pushed = Pushed()
    with pytest.raises(AuditFailed, match="CRITICAL"):
        SparkAuditOperator(task_id="audit", stream=running).execute({"ti": pushed})  # type: ignore[typeddict-item]
    assert {each["check"] for each in pushed["return_value"]["findings"]} >= {"checkpoint-storage"}  # type: ignore[index]

    # So does the command line, of both: this stream has no Kafka.
    flags = {"folder": str(running.source.parent), "fail_on": "high", "json": True, "kafka": False, "spark": False}
    with pytest.raises(SystemExit) as ended:
        commands.audit(Namespace(name="orders", verbose=False, **flags))
    assert ended.value.code == 1
    assert {each["check"] for each in json.loads(capsys.readouterr().out.splitlines()[-1])["findings"]} == {*found}

    # An upgrade is not refused for what runs already, and is told what it brings in.
    path = running.source
    path.write_text(
        path.read_text().replace("version: v1", "version: v2") + "  spark.dynamicAllocation.enabled: 'true'\n"
    )
    changed = load_spec(path)
    news = refuse(
        each for each in preflight(hook, RequestedRelease.of(changed), hook.observe()) if "Audit" in each.text
    )
    assert news == []
    path.write_text(path.read_text() + "  spark.ui.retainedStages: '100000'\n")
    news = refuse(preflight(hook, RequestedRelease.of(load_spec(path)), hook.observe()))
    assert [each for each in news if "the release brings in HIGH driver-heap" in each], news


def test_a_standalone_master_shows_its_settings_and_workers_their_executors(
    standalone: Place, stack: LocalStack
) -> None:
    job = standalone.job()
    submission = standalone.cluster.submit(job)
    application = standalone.facts(job, submission)["application"]
    found = standalone.cluster.facts(submission, [application])
    assert (found.problem, found.settings["spark.deploy.recoveryMode"]) == ("", "FILESYSTEM")
    assert found.ended_executors == 0
    assert found.executor_log is not None
    assert found.executor_log > 1000
    standalone.end(submission, job)


def test_a_job_is_audited_by_its_spark_ui_before_it_is_adopted(standalone: Place) -> None:
    job = standalone.job(spark_ui_enabled="true", spark_speculation="true", spark_driver_defaultJavaOptions="-Xss4m")
    submission = standalone.cluster.submit(job)
    application = standalone.facts(job, submission)["application"]
    version, conf = standalone.cluster.unmanaged_settings(application)
    assert (version, conf["spark.speculation"]) == (pyspark.__version__, "true")
    hook: Any = SimpleNamespace(cluster=standalone.cluster)
    told = audit_job(hook, application)
    assert [each for each in told if each.startswith(f"Audit of {application}: HIGH driver-exits-on-oom")], told
    with pytest.raises(ClusterError, match="names no Spark UI"):
        standalone.cluster.unmanaged_settings("app-1-1")
    standalone.end(submission, job)


@pytest.mark.system
def test_yarn_tells_the_settings_of_its_daemons(on_yarn: Place) -> None:
    found = on_yarn.cluster.facts("application_1_0001")
    assert found.problem == ""
    assert {*found.settings} == {*RM_SETTINGS, *NM_SETTINGS}


@pytest.mark.system
def test_kubernetes_tells_of_the_drivers_pod(standin_kubernetes: Place) -> None:
    place = standin_kubernetes
    job = place.job()
    submission = place.cluster.submit(job)
    place.facts(job, submission)
    found = place.cluster.facts(submission)
    assert found.pod["metadata"]["name"] == submission.rpartition("/")[2]
    assert found.pod["spec"]["containers"]
    assert place.cluster.facts("nothing").pod == {}
