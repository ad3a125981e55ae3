"""Compare a sink's memory of earlier batches with the checkpoint of the query that is to write to it."""

from __future__ import annotations

from collections.abc import Callable

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.checkpoint import LogEnds, SinkLog
from airflow_stream_provider.lifecycle.errors import CheckpointError, RehearsalRefused
from airflow_stream_provider.runtime.describe import is_file_sink
from airflow_stream_provider.runtime.managed_query import ManagedQuery

_OTHER_FOLDER = (
    "Nothing that runs was touched. Give the query a folder of its own, and say in the script at which offsets it "
    "begins (startingOffsets); or leave both checkpoint and folder as they were."
)
# The meaning of a new checkpoint for sinks that remember batches where this package does not look.
_NOT_SEEN = {
    "hudi": "Hudi drops the batches up to the last one that it remembers under the same `checkpoint.identifier`",
    "iceberg": "Iceberg remembers batches by the id of the query, which a new checkpoint does not have: what is read "
    "once more is written once more",
}


def check_remembered(query: ManagedQuery, accepted: bool) -> list[str]:
    """Check that a query's sink writes the batches that come next; return notes.

    :param accepted: whether a person accepts that batches are lost.
    :raises RehearsalRefused: they would be committed and never written, or the sink would fail at them for ever.
    """
    lost, fatal, notes = remembered(query)
    if fatal:
        raise RehearsalRefused(" ".join(fatal), next_step=_OTHER_FOLDER)
    if lost and not accepted:
        named = f"If the loss is intended, name `{query.checkpoint}: sink_log` in the form's `changed_checkpoints`."
        raise RehearsalRefused(" ".join(lost), next_step=f"{_OTHER_FOLDER} {named}")
    return [*lost, *notes]


def remembered(query: ManagedQuery) -> tuple[list[str], list[str], list[str]]:
    """Compare what a query's sink remembers with its checkpoint; its batches may run meanwhile, in another driver.

    :return: what is lost in silence, which a person may accept; what ends the query sooner or later; and notes.
    """
    folder = target_folder(query)
    kind = query.writer_spec.sink.rpartition(".")[2]
    try:
        if kind in _NOT_SEEN:
            new = checkpoints.boundary(query.checkpoint).offsets is None
            said = f"What the sink of the query {query.label} remembers is not seen: {_NOT_SEEN[kind]}."
            return [], [], [said] if new else []
        if kind == "delta" and folder:
            return _delta(query, folder), [], []
        if folder and is_file_sink(query):
            return (*_files(query, folder), [])
    except CheckpointError as error:
        return [], [], [f"What the sink of the query {query.label} remembers is not seen: {error.message}"]
    return [], [], []


def target_folder(query: ManagedQuery) -> str:
    """Return the folder that a query's sink writes to; empty where it is none, or not known before it is there."""
    spec = query.writer_spec
    if not spec.to_table:
        return spec.target or spec.options.get("path", "")
    session = query.writer._spark._jsparkSession.sessionState()
    try:
        table = session.catalog().getTableMetadata(session.sqlParser().parseTableIdentifier(spec.target))
        return str(table.location().toString())
    except (Py4JError, PySparkException):
        return spec.options.get("path", "")  # there is no such table yet, or it is of another catalog


def _files(query: ManagedQuery, folder: str) -> tuple[list[str], list[str]]:
    # Spark writes the log of a batch between the offsets and the commit of that batch, so the one is read before and
    # the other after the checkpoint.
    earlier = checkpoints.read_sink_log(folder)
    ends = checkpoints.boundary(query.checkpoint)
    return judge(query.label, folder, earlier, ends, lambda: checkpoints.read_sink_log(folder))


def judge(
    label: str, folder: str, earlier: SinkLog, ends: LogEnds, later: Callable[[], SinkLog]
) -> tuple[list[str], list[str]]:
    """Return what would be lost, and what would end the query; pure but for `later`.

    :param earlier: the sink's log before the checkpoint was looked at.
    :param later: reads it once more.
    """
    planned = -1 if ends.offsets is None else ends.offsets
    if earlier.newest is not None and earlier.newest > planned:
        lost = earlier.newest - planned
        text = (
            f"The query {label} writes to {folder}, whose log has batches up to {earlier.newest}, and its checkpoint "
            f"goes on with batch {planned + 1}: Spark's file sink drops each batch of a number that its log has, so "
            f"the next {lost} would be committed and never written."
        )
        return [text], []
    if ends.commit is None:
        return [], []
    log = later()
    if log.newest is None or log.newest < ends.commit:
        has = "none" if log.newest is None else f"them up to {log.newest}"
        found = f"its checkpoint has committed batches up to {ends.commit}, and the log in that folder has {has}"
    elif log.missing:
        found = f"the log in that folder lacks the batches {', '.join(map(str, log.missing[:5]))}"
    else:
        return [], []
    return [], [
        f"The query {label} writes to {folder}, and {found}: Spark's file sink needs all of them when it compacts its "
        "log next, and fails at that for ever."
    ]


def _delta(query: ManagedQuery, folder: str) -> list[str]:
    known = checkpoints.delta_batch(folder, query.id)
    ends = checkpoints.boundary(query.checkpoint)
    planned = -1 if ends.offsets is None else ends.offsets
    if known is None or known <= planned:
        return []
    return [
        f"The query {query.label} writes to the Delta table {folder}, which has batches of it up to {known}, and its "
        f"checkpoint goes on with batch {planned + 1}: Delta drops a batch that it has, so the next {known - planned} "
        "would be committed and never written."
    ]
