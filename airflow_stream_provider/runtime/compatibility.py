"""Finds differences to the running release that Spark accepts although they change results."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.checkpoint import LogEnds, SinkLog, file_system_of, normal_form, recorded_form
from airflow_stream_provider.lifecycle.changed_checkpoints import Change, locations
from airflow_stream_provider.lifecycle.errors import CheckpointError, RehearsalRefused
from airflow_stream_provider.lifecycle.kafka_source import MAX_TOPIC_IDS, kafka_sources
from airflow_stream_provider.runtime.describe import is_file_sink
from airflow_stream_provider.runtime.managed_query import ManagedQuery

QueryFacts = Mapping[str, Any]


# Spark reads or writes the state in another way; all other settings of a checkpoint it keeps by itself.
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
# Sinks that are none of Spark's file sinks, where the driver has not asked Spark.
_NO_FILE_SINKS = ("foreachbatch", "foreach", "kafka", "memory", "console", "noop", "delta", "iceberg", "hudi", "paimon")


def compare_queries(
    old: Sequence[QueryFacts],
    new: Sequence[QueryFacts],
    accepted: Sequence[str],
    pinned: Mapping[str, Mapping[str, str]] | None = None,
    committed: Mapping[str, Collection[str]] | None = None,
) -> tuple[list[str], list[str]]:
    """Compare the queries of the running release with a standby's; return (refusals, notes), one sentence each.

    :param old: from the holder's `standby` record; of a query that its script started later, only `name` and
        `checkpoint` are known. Such a one, or one that is said to be `late`, may come late again. The same script
        (`same_script`) may also start another one early: what it starts, and when, may depend on what it finds. That
        a topic was made anew is a note then.
    :param accepted: what the deployment's form names as changed on purpose; see `lifecycle.changed_checkpoints`. The
        computation of a query, and the settings of its checkpoint, are compared all the same.
    :param pinned: by checkpoint, the Spark conf that stands in it; see `checkpoint.pinned_conf`.
    :param committed: by checkpoint, the Kafka topics that it has offsets of.
    """
    confs = {recorded_form(name): conf for name, conf in (pinned or {}).items()}
    topics = {recorded_form(name): each for name, each in (committed or {}).items()}
    before = {recorded_form(q["checkpoint"]): q for q in old}
    after = {recorded_form(q["checkpoint"]): q for q in new}
    known = _known(accepted)
    same = any(q.get("same_script") for q in old)
    missing = {c: q for c, q in before.items() if c not in after and c not in known}
    refusals = [
        f"The query {query['name']} with checkpoint {c} is not started by this release: "
        "its input would not be read any more."
        for c, query in missing.items()
        if not _late(query)
    ]
    refusals += [
        f"The query {after[c]['name']} has a checkpoint, {c}, that the running release does not have: "
        "it would read its input again from the start."
        for c in after
        if before and c not in before and c not in known and not same
    ]
    moved = {q["name"]: q for c, q in before.items() if c not in after}
    notes = [
        f"The query {query['name']} with checkpoint {c}, which the script of the release before has started late, is "
        "not started by this one while it stands by: nothing of it was rehearsed. Unless the script starts it once it "
        "holds, its input is not read any more."
        for c, query in missing.items()
        if _late(query) and not same
    ]
    for checkpoint, query in after.items():
        # A checkpoint of another place that goes on is a copy of it.
        former = before.get(checkpoint) or (moved.get(query["name"], {}) if confs.get(checkpoint) else {})
        if "sources" in former:
            on_purpose = {change for change in Change if checkpoint in _known(accepted, change)}
            for change, found in _differences(former, query, topics.get(checkpoint, ())):
                (notes if change is None or change in on_purpose else refusals).append(found)
            refusals += _computes_otherwise(former, query)
        elif confs.get(checkpoint) and kafka_sources(query):
            notes.append(
                f"Of which Kafka the offsets in the checkpoint of the query {query['name']} are is not known: no "
                "driver of this stream has said which one it read."
            )
        conf = confs.get(checkpoint, {})
        differ = [key for key, value in query["conf"].items() if key in conf and value not in (None, conf[key])]
        # The rehearsal sees the writes of a query without state.
        if query["fingerprint"] and conf.get(FORMAT, "1") != (query["conf"].get(FORMAT) or "1") and conf:
            refusals.append(
                f"The query {query['name']} changes {FORMAT}: its state cannot be read with the other format."
            )
        notes += [
            f"The query {query['name']} keeps {key}={conf[key]}, as its checkpoint has it; this release's "
            f"{query['conf'][key]} is ignored."
            for key in differ
            if key != FORMAT
        ]
    return refusals, notes


def late_queries(old: Sequence[QueryFacts], accepted: Sequence[str]) -> dict[str, str]:
    """Return by checkpoint, as records have it, the names of the queries that a script of these has started late.

    :param old: as in `compare_queries`.
    :param accepted: as in `compare_queries`: these may have been dropped.
    """
    found = {recorded_form(q["checkpoint"]): str(q["name"]) for q in old if _late(q)}
    return {checkpoint: name for checkpoint, name in found.items() if checkpoint not in _known(accepted)}


def on_another_file_system(old: Sequence[QueryFacts], new: Sequence[QueryFacts], accepted: Sequence[str]) -> list[str]:
    """Return a sentence for each query whose checkpoint is on another file system now, by its URL or `fs.defaultFS`.

    It is the same query by its name, or by the path of its checkpoint. Nothing is asked of a file system.

    :param old: as in `compare_queries`; of both only `name` and `checkpoint` are used.
    :param accepted: as in `compare_queries`.
    """
    known = _known(accepted)
    before = {recorded_form(q["checkpoint"]): str(q["name"]) for q in old}
    after = {recorded_form(q["checkpoint"]): str(q["name"]) for q in new}
    dropped = {c: name for c, name in before.items() if c not in after and c not in known}
    added = {c: name for c, name in after.items() if c not in before and c not in known}
    found = []
    for here, name in dropped.items():
        elsewhere = [c for c in added if file_system_of(c) != file_system_of(here)]
        same = [c for c in elsewhere if added[c] == name] or [c for c in elsewhere if _path(c) == _path(here)]
        for there in same[:1]:
            found.append(
                f"The query {added.pop(there)} has its checkpoint on another file system than before: on "
                f"{file_system_of(there)} ({there}) instead of {file_system_of(here)} ({here}). It would read its "
                "input again from the start."
            )
    return found


def _late(query: QueryFacts) -> bool:
    return "sources" not in query or bool(query.get("late"))


def changes_position(old: Sequence[QueryFacts], query: QueryFacts) -> list[str]:
    """Return why a release before could not go on with what this query leaves behind; nothing where it could.

    :param old: as in `compare_queries`.
    """
    here = recorded_form(query["checkpoint"])
    former = next((q for q in old if recorded_form(q["checkpoint"]) == here and "sources" in q), None)
    if former is None:
        return []
    found = [text for change, text in _differences(former, query) if change is Change.SINK]
    return found + _other_clusters(former, query)[0]


def _known(accepted: Sequence[str], change: Change = Change.CHECKPOINT) -> set[str]:
    # A person writes a path as the script has it, which was another place if `fs.defaultFS` has changed.
    return {form(name) for name in locations(accepted, change) for form in (normal_form, recorded_form)}


def _path(form: str) -> str:
    return form.removeprefix(file_system_of(form))


def _differences(old: QueryFacts, new: QueryFacts, committed: Collection[str] = ()) -> list[tuple[Change | None, str]]:
    """Return what a query reads and writes elsewhere, each with the change that a person may name; None: a note."""
    name = new["name"]
    found: list[tuple[Change | None, str]] = []
    if list(map(_source_form, old["sources"])) != list(map(_source_form, new["sources"])):
        found.append(
            (
                Change.SOURCE,
                f"The query {name} reads {_list(new['sources'])} instead of {_list(old['sources'])}: Spark forgets its "
                "position in a dropped topic, and reads an added topic from its start; in another table or folder, "
                "its position means other records.",
            )
        )
    others, unknown = _other_clusters(old, new)
    found += [(Change.SOURCE, text) for text in others]
    # A driver that is brought back goes on where the one before was, which may have read the new log for long. After a
    # stop a person is there, who can name the change.
    refused = None if old.get("same_script") and not old.get("stopped") else Change.SOURCE
    anew, unsure = _topics_made_anew(old, new, committed)
    found += [(refused, text) for text in anew]
    found += [(None, text) for text in [*unknown, *unsure]]
    files = _is_file_sink(new)
    if _is_file_sink(old) != files or _target_form(old, files) != _target_form(new, files):
        text = f"The query {name} writes to {new['sink']} {new['target']} instead of {old['sink']} {old['target']}"
        if files or _is_file_sink(old):
            found.append(
                (
                    Change.SINK,
                    f"{text}: a file sink skips the batch ids that its own log has, whatever the checkpoint says.",
                )
            )
        else:
            found.append((None, f"{text}: from its next batch on, and nothing of the earlier ones."))
    return found


def _other_clusters(old: QueryFacts, new: QueryFacts) -> tuple[list[str], list[str]]:
    """Return a sentence for each Kafka source that is another cluster than before, and for what is not known."""
    others, unknown = [], []
    for was, now in zip(kafka_sources(old), kafka_sources(new)):
        if not was.cluster or not now.cluster:
            unknown.append(
                f"Whether {now.topics} of the query {new['name']} is in the same Kafka as before is not known: "
                f"{'its driver' if was.cluster else 'the driver before'} could not ask for the id of the cluster."
            )
        elif was.cluster != now.cluster:
            others.append(
                f"The query {new['name']} reads {now.topics} from another Kafka, {now.cluster} "
                f"({','.join(now.servers)}) instead of {was.cluster} ({','.join(was.servers)}): the offsets in its "
                "checkpoint are those of other records there."
            )
    return others, unknown


def _topics_made_anew(old: QueryFacts, new: QueryFacts, committed: Collection[str]) -> tuple[list[str], list[str]]:
    """Return a sentence for each Kafka source with topics that were made anew since the old driver came up.

    And one for each with committed topics of which that is not known. A release before could go on there as well: it is
    the log that was lost.
    """
    found, unknown = [], []
    for was, now in zip(kafka_sources(old), kafka_sources(new)):
        if not was.cluster or was.cluster != now.cluster:
            continue  # which is said of the source as a whole
        anew = [topic for topic, each in now.topic_ids.items() if was.topic_ids.get(topic, each) != each]
        both = was.topic_ids.keys() & now.topic_ids.keys()
        unsure = sorted(topic for topic in committed if topic not in both and now.may_read(topic))
        if unsure:
            more = f" and {len(unsure) - 3} more" if len(unsure) > 3 else ""
            unknown.append(
                f"Whether the query {new['name']} reads a topic that was made anew since the driver before came up is "
                f"not known of {_list(unsure[:3])}{more}: not both drivers have Kafka's id of it. A driver asks for "
                f"ids where a source reads at most {MAX_TOPIC_IDS} topics; Kafka says them from 2.8 on, to those who "
                "may DESCRIBE the topic."
            )
        if anew:
            found.append(
                f"The query {new['name']} reads {_list(sorted(anew))}, deleted and made anew since the driver before "
                "came up. If that driver has read on in the new log, going on loses nothing; if not, the offsets in "
                "the checkpoint are those of other records."
            )
    return found, unknown


def _computes_otherwise(old: QueryFacts, new: QueryFacts) -> list[str]:
    if old["fingerprint"] == new["fingerprint"]:
        return []
    return [
        f"The query {new['name']} computes {_list(new['fingerprint'])} on state made by {_list(old['fingerprint'])}: "
        "Spark accepts this when the types agree, and the results are wrong."
    ]


def _is_file_sink(query: QueryFacts) -> bool:
    said = query.get("file_sink")
    return bool(said) if said is not None else str(query["sink"]).lower() not in _NO_FILE_SINKS


def _target_form(query: QueryFacts, is_folder: bool) -> str:
    return recorded_form(query["target"]) if is_folder else str(query["target"])


def _source_form(source: str) -> Any:
    """Return a source of a `standby` record in one spelling, to compare it with another."""
    kind, _, value = source.partition("=")
    if kind.endswith(":subscribe"):
        return kind, sorted({name.strip() for name in value.split(",")} - {""})
    if kind.endswith(":path"):
        return kind, recorded_form(value)
    if kind.endswith(":assign"):
        try:
            return kind, {topic: sorted(set(numbers)) for topic, numbers in json.loads(value).items()}
        except (ValueError, TypeError, AttributeError):
            pass
    return source


def _list(names: Collection[str]) -> str:
    return ", ".join(names) or "nothing"


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
