"""The request that starts a driver on YARN: the launch context of Spark's ApplicationMaster.

It is what spark-submit would send, without its upload: Spark is on every node, and the release on a folder that all
mount, or fetched by the driver.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping
from typing import Any

from airflow_stream_provider.clusters.connection import YarnSettings
from airflow_stream_provider.clusters.job import Job
from airflow_stream_provider.clusters.spark_defaults import ROLLED, When, several
from airflow_stream_provider.clusters.spark_sizes import executors
from airflow_stream_provider.clusters.yarn_room import ContainerSizes
from airflow_stream_provider.control.releases import LAUNCHER
from airflow_stream_provider.lifecycle.errors import SpecError

# On every driver, so that one question asks for all of them.
COMMON_TAG = "airflow-stream"
LOG_TAG = "log-"
# Hadoop refuses longer ones (YarnConfiguration.APPLICATION_MAX_TAG_LENGTH), and stores all in lower case.
_TAG = re.compile(r"[a-z0-9._-]{1,100}")
_MASTER = "org.apache.spark.deploy.yarn.ApplicationMaster"
RUNNER = "org.apache.spark.deploy.PythonRunner"
# The options that Spark needs with Java 17 (its JavaModuleOptions), and that an older Java ignores.
_OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs"),
    *("sun.security.action", "sun.util.calendar"),
)
_JVM = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    *("-Djdk.reflect.useDirectMethodHandle=false", "-Dio.netty.tryReflectionSetAccessible=true"),
)
# The NodeManager replaces these wherever they stand: {{NAME}}, <LOG_DIR>, <CPS>, <ADD_OPENS>.
_REPLACED = re.compile(r"\{(?=\{)|\}(?=\})|<(?=LOG_DIR>|CPS>|ADD_OPENS>)")
# Characters that no value for executors may have: Spark does not escape them for the NodeManager's script.
_UNSAFE = re.compile(r'["$`\\]|\{\{|\}\}|<(LOG_DIR|CPS|ADD_OPENS)>')


def deployment_tag(deployment: str) -> str:
    """Return the tag by which a deployment's drivers are found."""
    return _tag(deployment, "")


def log_tag(log: str) -> str:
    """Return the tag that names a driver's control log."""
    return _tag(log, LOG_TAG)


def tags_of(job: Job) -> list[str]:
    """Return the tags of a job's driver."""
    return [COMMON_TAG, deployment_tag(job.deployment), *([log_tag(job.log)] if job.log else [])]


def submission_request(job: Job, settings: YarnSettings, id: str, sizes: ContainerSizes) -> dict[str, Any]:
    """Return the body of ``POST apps``.

    YARN starts no second attempt: a new driver is one that Airflow submits.

    :raises SecretInConf: the job's conf holds a secret.
    :raises SpecError: the Java options of its driver cannot be read.
    """
    conf = spark_conf(job, settings)
    rolled = {f"rolled-log-{part}-pattern": conf.get(f"{ROLLED}.{part}Pattern", "") for part in ("include", "exclude")}
    environment = [{"key": key, "value": value} for key, value in _environment(job, settings).items()]
    return {
        "application-id": id,
        "application-name": job.app_name,
        "application-type": "SPARK",
        "application-tags": {"tag": tags_of(job)},
        "queue": settings.queue,
        "max-app-attempts": 1,
        "keep-containers-across-application-attempts": False,
        "unmanaged-AM": False,
        "log-aggregation-context": {key: value for key, value in rolled.items() if value},
        "resource": {"memory": sizes.driver_memory, "vCores": sizes.driver_cores},
        "am-container-spec": {
            "commands": {"command": _command(job, settings, sizes)},
            "environment": {"entry": environment},
        },
    }


def spark_conf(job: Job, settings: YarnSettings) -> dict[str, str]:
    """Return the Spark conf of a driver.

    :raises SecretInConf: the job's conf holds a secret.
    """
    conf = {
        "spark.yarn.jars": f"local:{settings.spark_home}/jars/*",
        "spark.executorEnv.SPARK_HOME": settings.spark_home,
        **job.properties(When.YARN, *several(executors(job.conf), job.conf)),
    }
    return {
        **job.with_files(conf),
        "spark.master": "yarn",
        "spark.submit.deployMode": "cluster",
        "spark.yarn.queue": settings.queue,
        "spark.yarn.maxAppAttempts": "1",
        "spark.yarn.isPython": "true",  # executors then get their spark.executor.pyspark.memory
        # There is no staging folder: what Spark would remove at the end is not its own.
        "spark.yarn.preserve.staging.files": "true",
    }


def _environment(job: Job, settings: YarnSettings) -> dict[str, str]:
    """Return the environment of the driver, as the script of the NodeManager sets it, within double quotes."""
    declared = {key: _quoted(value) for key, value in job.environment.items()}
    classes = ("{{PWD}}", "{{HADOOP_CONF_DIR}}", f"{settings.spark_home}/conf", f"{settings.spark_home}/jars/*")
    more = job.conf.get("spark.driver.extraClassPath", "")
    return {
        **declared,
        "CLASSPATH": "<CPS>".join((*([_quoted(more)] if more else []), *classes)),
        "SPARK_HOME": settings.spark_home,
        "SPARK_USER": settings.user,
        "HADOOP_USER_NAME": settings.user,  # a node may run all containers as one user
        "SPARK_YARN_STAGING_DIR": "file:///nonexistent",  # the ApplicationMaster wants one, and keeps it
        # Spark would say its address: the node's name is that by which the ResourceManager knows it.
        "SPARK_LOCAL_HOSTNAME": "{{NM_HOST}}",
        "PYSPARK_PYTHON": declared.get("PYSPARK_PYTHON", settings.python),
    }


def _command(job: Job, settings: YarnSettings, sizes: ContainerSizes) -> str:
    """Return the driver's command line. `exec`: the NodeManager sees the end of the JVM, not of a shell above it."""
    conf = spark_conf(job, settings)
    java = "{{JAVA_HOME}}/bin/java"
    own = [
        option
        for kind in ("default", "extra")
        for option in _options(conf.get(f"spark.driver.{kind}JavaOptions", ""), f"spark.driver.{kind}JavaOptions")
    ]
    words = [
        *(f"-Xmx{sizes.driver_heap}m", *_JVM, *own),
        *(f"-D{key}={value}" for key, value in conf.items()),
        *(_MASTER, "--class", RUNNER, "--primary-py-file", LAUNCHER if job.is_fetched else job.launcher),
        *(word for argument in job.arguments for word in ("--arg", argument)),
    ]
    start = f"exec {java} -server -Djava.io.tmpdir={{{{PWD}}}}/tmp -Dspark.yarn.app.container.log.dir=<LOG_DIR> "
    start += " ".join(map(_shell_word, words)) + " 1>><LOG_DIR>/stdout 2>><LOG_DIR>/stderr"
    if not job.is_fetched:
        return start
    # By Spark's own file systems and the driver's conf, so that the nodes need none.
    prefix = "spark.hadoop."
    hadoop = [f"-D{key.removeprefix(prefix)}={value}" for key, value in conf.items() if key.startswith(prefix)]
    copy = ["-Xmx128m", *_JVM, "org.apache.hadoop.fs.FsShell", *hadoop, "-get", job.launcher, LAUNCHER]
    fetch = f"{java} " + " ".join(map(_shell_word, copy)) + " 1><LOG_DIR>/prelaunch.fetch 2>&1"
    return f"{fetch} && {start}"


def refuse_unsafe_environment(job: Job) -> None:
    """Check that a stream's environment reaches its executors as it is.

    :raises SpecError: a value does not.
    """
    for name, value in job.environment.items():
        found = _UNSAFE.search(value)
        if found:
            raise SpecError(
                f"The environment variable {name} has {found.group()!r}, which would reach executors on YARN as "
                "something else: Spark writes it into a shell script without escaping it.",
                next_step="Give the value in another form, such as base64, or in a file.",
                variable=name,
            )


def _options(text: str, key: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise SpecError(f"The Spark conf {key} cannot be read: {error}.", next_step="Correct its quotes.") from None


def _shell_word(text: str) -> str:
    """Return a word that reaches the program as it is.

    The NodeManager puts the command into ``bash -c "…"`` of a script, and replaces some signs of its own.
    """
    return "'" + _REPLACED.sub(r"\g<0>''", _escaped(text.replace("'", "'\\''"))) + "'"


def _quoted(text: str) -> str:
    """Return a text that is itself within double quotes of the NodeManager's script."""
    return _REPLACED.sub(r'\g<0>""', _escaped(text))


def _escaped(text: str) -> str:
    return re.sub(r'([\\"$`])', r"\\\1", text)


def _tag(text: str, prefix: str) -> str:
    tag = f"{prefix}{text}".lower()
    return tag if _TAG.fullmatch(tag) else prefix + hashlib.sha256(text.encode()).hexdigest()


def said_tags(application: Mapping[str, Any]) -> set[str]:
    """Return the tags that the ResourceManager says of an application."""
    return {tag.strip() for tag in str(application.get("applicationTags") or "").split(",")} - {""}
