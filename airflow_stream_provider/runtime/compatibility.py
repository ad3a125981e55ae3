"""Finds differences to the running release that Spark accepts although they change results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_stream_provider.checkpoint import normal_form

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
        `checkpoint` are known.
    :param accepted: checkpoints that the deployment's form names as added, dropped or changed on purpose.
    :param pinned: by checkpoint, the Spark conf that stands in it; see `checkpoint.pinned_conf`.
    """
    confs = {normal_form(name): conf for name, conf in (pinned or {}).items()}
    before = {normal_form(q["checkpoint"]): q for q in old}
    after = {normal_form(q["checkpoint"]): q for q in new}
    known = {normal_form(name) for name in accepted}
    refusals = [
        f"The query {before[c]['name']} with checkpoint {c} is not started by this release: "
        "its input would not be read any more."
        for c in before
        if c not in after and c not in known
    ]
    refusals += [
        f"The query {after[c]['name']} has a checkpoint, {c}, that the running release does not have: "
        "it would read its input again from the start."
        for c in after
        if before and c not in before and c not in known
    ]
    notes: list[str] = []
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
