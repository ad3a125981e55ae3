"""The Spark conf that a job is given where its own says nothing: one table for every cluster.

A stream lives for months, and Spark's own defaults are those of jobs that end. docs/clusters.md has the table, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from airflow_stream_provider.control.releases import LOG_SIZE

EXCLUDE = "spark.excludeOnFailure"
DRIVER_ANNOTATION = "spark.kubernetes.driver.annotation."
ROLLED = "spark.yarn.rolledLog"
DEFAULT_CORES_MAX = 2


class When(StrEnum):
    """A case in which a job is given a setting."""

    ALWAYS = "always"
    SEVERAL = "two executors or more"
    STANDALONE = "standalone"
    YARN = "YARN"
    KUBERNETES = "Kubernetes"


class Default(NamedTuple):
    """A setting that a job is given.

    :param when: in which cases; one of them is enough.
    :param why: what it prevents, for people.
    :param unless: other keys of a conf that decide the same.
    """

    name: str
    value: str
    when: tuple[When, ...]
    why: str
    unless: tuple[str, ...] = ()


_ALWAYS, _SEVERAL, _STANDALONE = (When.ALWAYS,), (When.SEVERAL,), (When.STANDALONE,)
_UI = "Spark keeps less of what has ended in the driver's heap"
_HDFS = "A client of HDFS asks sooner, and as long in all, whether a file is closed"
_SICK = (f"{EXCLUDE}.taskAndStage.enabled", f"{EXCLUDE}.application.enabled", "spark.blacklist.enabled")
_FAILURES = "spark.executor.failuresValidityInterval"
# A file on HDFS is closed once the NameNode has heard of its last block from a DataNode. A client that asks before that
# sleeps, by default 400 ms, and doubles that for each of 5 retries (DFSOutputStream.completeFile of Hadoop). A batch
# writes half a dozen small files one after another. Ten retries from 10 ms on wait about as long in all: 10 s.
HDFS_DEFAULTS = {
    "spark.hadoop.dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "10",
    "spark.hadoop.dfs.client.block.write.locateFollowingBlock.retries": "10",
}

DEFAULTS = (
    Default(
        # Spark puts it in front of spark.driver.extraJavaOptions, so that a stream, and a cluster, keep theirs.
        *("spark.driver.defaultJavaOptions", "-XX:+ExitOnOutOfMemoryError", _ALWAYS),
        "A driver without memory ends, and another follows. Otherwise one thread ends, and the driver half lives",
    ),
    Default("spark.ui.retainedJobs", "100", _ALWAYS, _UI),
    Default("spark.ui.retainedStages", "100", _ALWAYS, _UI),
    Default("spark.ui.retainedTasks", "2000", _ALWAYS, f"{_UI}; of each stage"),
    Default("spark.sql.ui.retainedExecutions", "50", _ALWAYS, _UI),
    Default("spark.sql.streaming.ui.retainedQueries", "20", _ALWAYS, f"{_UI}; each restart of a query is one"),
    Default("spark.scheduler.mode", "FAIR", _ALWAYS, "Each query has a pool: a long batch holds up no other query"),
    Default(f"{EXCLUDE}.enabled", "true", _SEVERAL, "A sick executor does not get every attempt of a task", _SICK),
    Default(f"{EXCLUDE}.timeout", "1h", _SEVERAL, "An executor is tried again after that"),
    Default(
        *(f"{EXCLUDE}.task.maxTaskAttemptsPerExecutor", "2", _SEVERAL),
        "A sink that is away fails the query after four attempts, also on two executors",
    ),
    Default(
        *(f"{EXCLUDE}.stage.maxFailedTasksPerExecutor", "100000", _SEVERAL),
        "A sink that is away excludes no executor from the stage",
    ),
    Default(
        *("spark.scheduler.excludeOnFailure.unschedulableTaskSetTimeout", "15s", _SEVERAL),
        "The query fails after that if all of its executors are on one sick host",
    ),
    Default(
        # Spark gives up after some failures of executors, by default of a driver's whole life.
        *(_FAILURES, "1h", (When.YARN, When.KUBERNETES)),
        "Executors that failed long ago are no reason to give up",
        ("spark.yarn.executor.failuresValidityInterval",),  # its name before 3.5
    ),
    Default("spark.driver.supervise", "false", _STANDALONE, "The watch starts the next driver, and not the master"),
    Default("spark.cores.max", str(DEFAULT_CORES_MAX), _STANDALONE, "An application takes all cores otherwise"),
    Default(
        *(LOG_SIZE, "32m", (When.STANDALONE, When.YARN)),
        "`stdout` and `stderr` that are larger become `stdout.1` and `stderr.1`, in place of those before",
    ),
    Default(
        *(f"{ROLLED}.includePattern", "stdout.1|stderr.1", (When.YARN,)), "YARN takes them while the driver still runs"
    ),
    Default(
        *(f"{DRIVER_ANNOTATION}cluster-autoscaler.kubernetes.io/safe-to-evict", "false", (When.KUBERNETES,)),
        "The autoscaler does not remove the driver's node",
    ),
    Default(*(f"{DRIVER_ANNOTATION}karpenter.sh/do-not-disrupt", "true", (When.KUBERNETES,)), "Neither does Karpenter"),
    *(Default(name, value, _ALWAYS, _HDFS) for name, value in HDFS_DEFAULTS.items()),
)


def several(executors: int, conf: Mapping[str, str]) -> tuple[When, ...]:
    """Return the case of a job with so many executors.

    Spark refuses to exclude any where a task has no more attempts than may fail on one host, which are two.
    """
    attempts = str(conf.get("spark.task.maxFailures", "4"))
    return _SEVERAL if executors > 1 and not (attempts.isdecimal() and int(attempts) <= 2) else ()


def defaults(conf: Mapping[str, str], *cases: When) -> dict[str, str]:
    """Return what a job is given in these cases, and always, without what its conf decides itself."""
    given = {When.ALWAYS, *cases}
    return {
        each.name: each.value
        for each in DEFAULTS
        if given & {*each.when} and conf.keys().isdisjoint((each.name, *each.unless))
    }
