"""Refuses the way of writing checkpoints in which Spark takes a failed write for a done one."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.runtime.writer_spec import writer_spec_of

SETTING = "spark.sql.streaming.checkpointFileManagerClass"
# Its close() swallows every error, in each version of Spark that could be read. Measured on S3A: a refused write of
# offsets/16 was a warning, and commits/16 was written.
SWALLOWS = "AbortableStreamBasedCheckpointFileManager"


def check_file_manager(writer: DataStreamWriter) -> None:
    """Check that Spark fails a query when a file of its checkpoint could not be written.

    :raises SpecError: the session uses the manager that does not.
    """
    # As Spark asks: it may come from the session, spark-defaults.conf, core-site.xml or the script's own Hadoop conf.
    session: Any = writer._spark._jsparkSession
    found = str(session.sessionState().newHadoopConf().get(SETTING) or "")
    if found.rpartition(".")[2] == SWALLOWS:
        raise SpecError(
            f"The query {writer_spec_of(writer).name or '(unnamed)'} cannot run with {SWALLOWS}: when the storage "
            "refuses to take a batch's offsets, Spark only logs that, and commits the batch all the same.",
            next_step=f"Do not set {SETTING}, neither in Spark's conf nor in Hadoop's: by default Spark writes each "
            "file under another name and renames it.",
        )
