"""The storage that this driver reaches: Hadoop's file systems, as Spark itself would open them."""

from __future__ import annotations

import threading
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from airflow_stream_provider.checkpoint.location import Storage
from airflow_stream_provider.runtime import jvm
from airflow_stream_provider.runtime.hadoop_files import HadoopFiles


def storage() -> Storage:
    """Return the storage of this driver, for `checkpoint.location.reach`."""
    systems = _FileSystems()
    return Storage(systems.default, systems.open)


class _FileSystems:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, HadoopFiles] = {}
        self._asked: SparkContext | None = None
        self._default = ""

    def default(self) -> str:
        context = SparkContext._active_spark_context
        # While the script creates its context, it is visible here before it is complete.
        if context is not None and context is not self._asked and hasattr(context, "_jsc"):
            # Not the text of the setting: Hadoop also takes `host:port` there, for HDFS.
            of = jvm.jvm().org.apache.hadoop.fs.FileSystem.getDefaultUri
            self._default = str(of(context._jsc.hadoopConfiguration()).toString())
            self._asked = context
        return self._default

    def open(self, root: str) -> HadoopFiles:
        with self._lock:
            return self._open.setdefault(root, HadoopFiles(root, _connect))


def _connect(root: str) -> Any:
    machine = jvm.jvm()
    session = SparkSession._instantiatedSession
    if session is not None:
        # With the settings of the script's session, as Spark opens it: the first caller decides for both, because
        # Hadoop keeps one FileSystem for all.
        conf = session._jsparkSession.sessionState().newHadoopConf()
    else:
        context = SparkContext._active_spark_context
        conf = (
            context._jsc.hadoopConfiguration()
            if context is not None
            else machine.org.apache.hadoop.conf.Configuration()
        )
    return machine.org.apache.hadoop.fs.FileSystem.get(machine.java.net.URI(f"{root}/"), conf)
