"""What spark-submit is given with Kerberos, and that it ends. A script stands in for it; the provider's hook is real.

With the real one: tests/integration/clusters/test_yarn_kerberos.py.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from airflow_stream_provider.clusters import ClusterConnection, Job, yarn_kerberos
from airflow_stream_provider.clusters.connection import ADDRESS, KerberosLogin, YarnSettings
from airflow_stream_provider.clusters.job import SecretInConf
from airflow_stream_provider.lifecycle.errors import ClusterError
from devstack.drivers import lives, wait_for
from tests.support.jobs import job
from tests.support.keytabs import in_base64, keytab
from tests.support.pretended_spark_submit import Pretended

LOGIN = KerberosLogin("streams@EXAMPLE.COM", keytab())
ID = "submission-1764000000250-0123456789abcdef"
SETTINGS = YarnSettings(("http://rm:8088",), "streams", "/opt/spark", "root.streams", "/opt/python")
JOB: Job = job(log="5e6f7a8b" * 4, environment={"REGION": "eu"}, conf={"spark.executor.memory": "2g"})
# Acts as the task that submits.
TASK = """
import sys, time
from airflow_stream_provider.clusters import yarn_kerberos as spark_submit
from tests.unit.clusters.test_spark_submit import ID, JOB, LOGIN, SETTINGS
spark_submit.run(JOB, SETTINGS, LOGIN, ID, time.monotonic() + 600)
"""


def run(asked: Job = JOB, seconds: float = 600.0) -> None:
    yarn_kerberos.run(asked, SETTINGS, LOGIN, ID, time.monotonic() + seconds)


def options(argv: list[str]) -> dict[str, str]:
    """Return the conf of a command line, and its other options."""
    pairs = list(itertools.pairwise(argv))
    conf = dict(value.split("=", 1) for key, value in pairs if key == "--conf")
    return {**conf, **{key: value for key, value in pairs if key.startswith("--") and key != "--conf"}}


def test_the_driver_is_the_one_that_is_sent_without_kerberos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretended = Pretended.install(tmp_path, monkeypatch)
    run()
    (call,) = pretended.calls
    found = options(call["argv"])
    assert found["--master"] == "yarn"
    assert found["--deploy-mode"] == "cluster"
    assert found["--queue"] == "root.streams"
    assert found["--name"] == JOB.app_name
    assert found["--principal"] == "streams@EXAMPLE.COM"
    assert found["--class"] == "org.apache.spark.deploy.PythonRunner"
    assert found["spark.yarn.tags"] == f"airflow-stream,orders-2-1a2b,log-{JOB.log},{ID}"
    assert found["spark.yarn.submit.waitAppCompletion"] == "false"
    assert found["spark.yarn.maxAppAttempts"] == "1"
    assert found["spark.yarn.jars"] == "local:/opt/spark/jars/*"
    assert found["spark.executor.memory"] == "2g"
    assert found["spark.yarn.appMasterEnv.REGION"] == found["spark.executorEnv.REGION"] == "eu"
    assert found["spark.yarn.appMasterEnv.PYSPARK_PYTHON"] == "/opt/python"
    assert found["spark.yarn.dist.pyFiles"] == ",".join(JOB.files)
    assert not {"--py-files", "spark.submit.pyFiles", "spark.yarn.preserve.staging.files"} & found.keys()
    assert call["argv"][-len(JOB.arguments) - 3 :] == ["spark-internal", JOB.launcher, "", *JOB.arguments]


def test_a_launcher_that_is_fetched_is_fetched_by_yarn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretended = Pretended.install(tmp_path, monkeypatch)
    run(job(release_dir="hdfs://nn:8020/releases/abc", conf={"spark.files": "a.txt"}))
    argv = pretended.calls[0]["argv"]
    assert options(argv)["--files"] == "hdfs://nn:8020/releases/abc/launcher.py,a.txt"
    assert argv[argv.index("spark-internal") + 1] == "launcher.py"


def test_a_keytab_is_read_by_its_path_and_is_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    pretended = Pretended.install(tmp_path, monkeypatch)
    with caplog.at_level("DEBUG"):
        run()
    (call,) = pretended.calls
    assert bytes.fromhex(call["keytab"]) == LOGIN.keytab
    assert options(call["argv"])["--keytab"].startswith("/proc/self/fd/")
    assert list((tmp_path / "tmp").iterdir()) == []
    said = json.dumps([call["argv"], call["environment"]]) + caplog.text
    assert in_base64(LOGIN.keytab) not in said
    assert "kkkk" not in said


def test_it_gets_little_of_airflow_s_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "hush")
    monkeypatch.setenv("KRB5_CONFIG", "/etc/other.conf")
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Xmx300m")
    pretended = Pretended.install(tmp_path, monkeypatch)
    run()
    found = pretended.calls[0]["environment"]
    assert found["HADOOP_CONF_DIR"] == str(tmp_path / "hadoop")
    assert found["SPARK_SUBMIT_OPTS"] == "-Xmx300m -Djava.security.krb5.conf=/etc/other.conf"
    assert "hush" not in json.dumps(found)
    assert not [name for name in found if name.startswith(("AIRFLOW", "STREAM_"))]


def test_a_secret_in_the_conf_is_refused_and_nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretended = Pretended.install(tmp_path, monkeypatch)
    with pytest.raises(SecretInConf):
        run(job(conf={"spark.hadoop.fs.s3a.secret.key": "hush"}))
    assert pretended.calls == []


@pytest.mark.parametrize(
    ("says", "told"),
    [
        (
            'INFO Client: x\nException in thread "main" org.apache.hadoop.yarn.exceptions.YarnException: Failed to '
            "submit application_1_1 to YARN : unknown queue: nowhere\n\tat a.B.c(B.java:1)",
            "Failed to submit application_1_1 to YARN : unknown queue: nowhere",
        ),
        ("Error: Unrecognized option: --x", "Unrecognized option: --x"),
        ("", "it ended with exit code 1"),
    ],
)
def test_why_it_has_failed_is_told_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, told: str
) -> None:
    Pretended.install(tmp_path, monkeypatch, code=1, says=says)
    with pytest.raises(ClusterError) as refused:
        run()
    assert refused.value.message == f"spark-submit has not submitted {JOB.app_name}: {told}."


def test_it_is_killed_at_its_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Pretended.install(tmp_path, monkeypatch, seconds=600)
    with pytest.raises(ClusterError, match=rf"exit code (-{signal.SIGALRM}|70)\."):  # 70: a busy machine began too late
        run(seconds=2.0)


def test_it_is_killed_when_the_task_is_told_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretended = Pretended.install(tmp_path, monkeypatch, seconds=600)

    def time_out(*_: object) -> None:
        if not pretended.calls:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            return
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, time_out)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(TimeoutError):
            run()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not psutil.pid_exists(pretended.calls[0]["pid"])


def test_it_is_killed_with_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretended = Pretended.install(tmp_path, monkeypatch, seconds=600)
    task = subprocess.Popen([sys.executable, "-c", TASK], cwd=Path(__file__).parents[3], stdout=subprocess.DEVNULL)
    wait_for("it to run", lambda: pretended.calls or task.poll() is not None)
    program = psutil.Process(pretended.calls[0]["pid"])
    os.kill(task.pid, signal.SIGKILL)
    task.wait()
    wait_for("it to end", lambda: not lives(program))


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("program", "spark3-submit, which is not on this machine's PATH"),
        ("java", "There is no Java in JAVA_HOME"),
        ("conf", "HADOOP_CONF_DIR is not set, and there is no yarn-site.xml in it"),
        ("file", "HADOOP_CONF_DIR is /nowhere, and there is no yarn-site.xml in it"),
        ("", ""),
    ],
)
def test_what_this_machine_lacks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, said: str
) -> None:
    Pretended.install(tmp_path, monkeypatch)
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    extra = {ADDRESS: "http://rm:8088", "spark_home": "/opt/spark"}
    if missing == "program":
        extra["spark-binary"] = "spark3-submit"
    elif missing == "java":
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    elif missing == "conf":
        monkeypatch.delenv("HADOOP_CONF_DIR")
    elif missing == "file":
        monkeypatch.setenv("HADOOP_CONF_DIR", "/nowhere")
    settings = YarnSettings.of(ClusterConnection("yarn", extra=extra, login="streams"))
    if not missing:
        yarn_kerberos.check_here(settings)
        return
    with pytest.raises(ClusterError) as refused:
        yarn_kerberos.check_here(settings)
    assert said in refused.value.message
    assert refused.value.next_step
