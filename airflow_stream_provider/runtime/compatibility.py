"""Finds differences to the running release that Spark accepts although they change results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_stream_provider.checkpoint import file_system_of, normal_form, recorded_form

QueryFacts = Mapping[str, Any]


# Spark reads or writes the state in another way; all other settings of a checkpoint it keeps by itself.
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


def compare_queries(
    old: Sequence[QueryFacts],
    new: Sequence[QueryFacts],
    accepted: Sequence[str],
    pinned: Mapping[str, Mapping[str, str]] | None = None,
) -> tuple[list[str], list[str]]:
    """Compare the queries of the running release with a standby's; return (refusals, notes), one sentence each.

    :param old: from the holder's `standby` record; of a query that its script started later, only `name` and
        `checkpoint` are known. Such a one, or one that is said to be `late`, may come late again. The same script
        (`same_script`) may also start another one early: what it starts, and when, may depend on what it finds.
    :param accepted: checkpoints that the deployment's form names as added, dropped or changed on purpose.
    :param pinned: by checkpoint, the Spark conf that stands in it; see `checkpoint.pinned_conf`.
    """
    confs = {recorded_form(name): conf for name, conf in (pinned or {}).items()}
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
    notes = [
        f"The query {query['name']} with checkpoint {c}, which the script of the release before has started late, is "
        "not started by this one while it stands by: nothing of it was rehearsed. Unless the script starts it once it "
        "holds, its input is not read any more."
        for c, query in missing.items()
        if _late(query) and not same
    ]
    for checkpoint, query in after.items():
        if checkpoint in known:
            continue
        if "sources" in before.get(checkpoint, {}):
            refusals += _compare_query(before[checkpoint], query)
        conf = confs.get(checkpoint, {})
        differ = [key for key, value in query["conf"].items() if key in conf and value not in (None, conf[key])]
        if conf.get(FORMAT, "1") != (query["conf"].get(FORMAT) or "1") and conf:
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


def _known(accepted: Sequence[str]) -> set[str]:
    # A person writes a path as the script has it, which was another place if `fs.defaultFS` has changed.
    return {form(name) for name in accepted for form in (normal_form, recorded_form)}


def _path(form: str) -> str:
    return form.removeprefix(file_system_of(form))


def _compare_query(old: QueryFacts, new: QueryFacts) -> list[str]:
    name = new["name"]
    refusals = []
    if old["sources"] != new["sources"]:
        refusals.append(
            f"The query {name} reads {_list(new['sources'])} instead of {_list(old['sources'])}: Spark forgets its "
            "position in a dropped topic, and reads an added topic from its start."
        )
    if old["fingerprint"] != new["fingerprint"]:
        refusals.append(
            f"The query {name} computes {_list(new['fingerprint'])} on state made by {_list(old['fingerprint'])}: "
            "Spark accepts this when the types agree, and the results are wrong."
        )
    if _kind(old) != _kind(new) or (_kind(new) == "file" and old["target"] != new["target"]):
        refusals.append(
            f"The query {name} writes to {new['sink']} {new['target']} instead of {old['sink']} {old['target']}: "
            "a file sink skips the batch ids that its own log has, whatever the checkpoint says."
        )
    return refusals


def _kind(query: QueryFacts) -> str:
    return "file" if query["sink"] in ("parquet", "json", "csv", "orc", "text") else "other"


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
