"""The request that starts a driver on YARN, run by a real shell as a NodeManager has it run."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.clusters import Job, SecretInConf
from airflow_stream_provider.clusters.connection import YarnSettings
from airflow_stream_provider.clusters.yarn_request import (
    deployment_tag,
    log_tag,
    said_tags,
    spark_conf,
    submission_request,
    tags_of,
)
from airflow_stream_provider.clusters.yarn_room import ContainerSizes
from tests.support.jobs import ARGUMENTS, job

SETTINGS = YarnSettings(("http://rm:8088",), "alice", "/opt/spark", "streams", "/opt/python")
ODD = [
    "a b",
    "it's",
    'say "x"',
    "$HOME `id` $(id)",
    "a\\b\\\\c",
    "{{PWD}} {{{x}}} <LOG_DIR> <CPS>",
    "%s!",
    "*",
    "",
    "ü",
]


def request(of: Job) -> dict[str, Any]:
    return submission_request(of, SETTINGS, "application_1_0001", ContainerSizes.from_conf(of.conf))


def launched(of: Job, folder: Path) -> tuple[list[list[str]], dict[str, str]]:
    """Run the command as Hadoop's ContainerLaunch does; return the words of each Java that ran, and its variables."""
    java = folder / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/bash\nprintf "%s\\0" "$@" > "$OUT/words.$(ls "$OUT" | wc -l)"; env -0 > "$OUT/../env"\n')
    java.chmod(0o755)
    (folder / "out").mkdir()

    def expanded(text: str) -> str:
        text = text.replace("<LOG_DIR>", str(folder)).replace("<CPS>", ":")
        return text.replace("{{", "$").replace("}}", "")

    body = request(of)["am-container-spec"]
    entries = {each["key"]: each["value"] for each in body["environment"]["entry"]}
    lines = [f'export {key}="{expanded(value)}"' for key, value in entries.items()]
    lines.append(f'exec /bin/bash -c "{expanded(body["commands"]["command"])}"')
    (folder / "launch.sh").write_text("\n".join(lines))
    known = {"JAVA_HOME": str(java.parents[1]), "NM_HOST": "node1", "HADOOP_CONF_DIR": "/conf", "OUT": f"{folder}/out"}
    environment = {**known, "PWD": str(folder), "PATH": os.environ["PATH"]}
    subprocess.run(["bash", str(folder / "launch.sh")], check=True, cwd=folder, env=environment)
    words = [path.read_text().split("\0")[:-1] for path in sorted((folder / "out").iterdir())]
    variables = dict(line.split("=", 1) for line in (folder / "env").read_text().split("\0") if line)
    return words, variables


def test_every_word_reaches_spark_as_it_is(tmp_path: Path) -> None:
    conf = {f"spark.odd.{number}": text for number, text in enumerate(ODD)}
    conf["spark.driver.extraJavaOptions"] = "-XX:+UseSerialGC '-Dsay=a b'"
    odd = job(arguments=(*ARGUMENTS[:-1], *ODD), conf=conf, environment={f"ODD_{n}": t for n, t in enumerate(ODD)})
    (words,), variables = launched(odd, tmp_path)
    main = words.index("org.apache.spark.deploy.yarn.ApplicationMaster")
    rest = words[main + 1 :]
    assert rest[:4] == ["--class", "org.apache.spark.deploy.PythonRunner", "--primary-py-file", odd.launcher]
    assert rest[4::2] == ["--arg"] * len(odd.arguments)
    assert tuple(rest[5::2]) == odd.arguments
    said = dict(word[2:].split("=", 1) for word in words[:main] if word.startswith("-Dspark."))
    assert {key: said[key] for key in conf} == conf
    assert said.items() >= spark_conf(odd, SETTINGS).items()
    assert {"-Xmx1024m", "-XX:+UseSerialGC", "-Dsay=a b", f"-Djava.io.tmpdir={tmp_path}/tmp"} <= set(words[:main])
    assert [variables[f"ODD_{number}"] for number in range(len(ODD))] == ODD
    assert variables["CLASSPATH"] == f"{tmp_path}:/conf:/opt/spark/conf:/opt/spark/jars/*"
    assert (variables["SPARK_LOCAL_HOSTNAME"], variables["SPARK_USER"]) == ("node1", "alice")
    assert variables["PYSPARK_PYTHON"] == "/opt/python"


def test_a_launcher_that_is_fetched_is_there_before_spark_starts(tmp_path: Path) -> None:
    conf = {"spark.hadoop.fs.s3a.endpoint": "http://s3 x", "spark.driver.extraClassPath": "/jars/*"}
    fetched = job(
        release_dir="s3a://b/team/orders/releases/abc", conf=conf, environment={"PYSPARK_PYTHON": "python3.9"}
    )
    (first, second), variables = launched(fetched, tmp_path)
    at = first.index("org.apache.hadoop.fs.FsShell")
    assert "-Dfs.s3a.endpoint=http://s3 x" in first[at:]
    assert first[-3:] == ["-get", "s3a://b/team/orders/releases/abc/launcher.py", "launcher.py"]
    assert second[second.index("--primary-py-file") + 1] == "launcher.py"
    assert variables["CLASSPATH"].startswith("/jars/*:")
    assert variables["PYSPARK_PYTHON"] == "python3.9"


def test_the_driver_is_the_leader_of_its_container() -> None:
    """Only then does the NodeManager say that it has ended when it has."""
    command = request(job())["am-container-spec"]["commands"]["command"]
    assert re.match(r"exec \{\{JAVA_HOME}}/bin/java ", command)


def test_it_says_whose_it_is_and_is_never_started_again() -> None:
    body = request(job(log="5E6F" * 8))
    assert body["application-id"] == "application_1_0001"
    assert body["application-tags"] == {"tag": ["airflow-stream", "orders-2-1a2b", "log-" + "5e6f" * 8]}
    assert (body["max-app-attempts"], body["queue"]) == (1, "streams")
    assert body["resource"] == {"memory": 1024 + 384, "vCores": 1}
    assert body["application-name"] == job().app_name


def test_a_tag_that_hadoop_would_refuse_is_a_hash() -> None:
    long = "o" * 101
    assert (len(deployment_tag(long)), deployment_tag("orders")) == (64, "orders")
    assert log_tag("x" * 200).startswith("log-")
    assert len(log_tag("x" * 200)) == 68
    assert tags_of(job(log="")) == ["airflow-stream", "orders-2-1a2b"]
    assert said_tags({"applicationTags": "a,b"}) == {"a", "b"}
    assert said_tags({}) == set()


def test_the_release_s_files_reach_the_executors() -> None:
    conf = spark_conf(job(conf={"spark.submit.pyFiles": "/more.zip", "spark.yarn.jars": "local:/x/*"}), SETTINGS)
    base = "/data/streams/orders/releases/abc"
    assert conf["spark.submit.pyFiles"] == f"{base}/airflow_stream_runtime.zip,{base}/helpers.py,/more.zip"
    assert conf["spark.files"] == f"{base}/airflow_stream_runtime.zip,{base}/helpers.py"
    assert (conf["spark.yarn.jars"], conf["spark.executorEnv.SPARK_HOME"]) == ("local:/x/*", "/opt/spark")


def test_a_secret_is_refused() -> None:
    secret = replace(job(), conf={"spark.hadoop.fs.s3a.secret.key": "abc"})
    with pytest.raises(SecretInConf):
        request(secret)
