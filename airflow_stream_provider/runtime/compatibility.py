"""Finds differences to the running release that Spark accepts although they change results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

QueryFacts = Mapping[str, Any]


def compare_queries(
    old: Sequence[QueryFacts], new: Sequence[QueryFacts], accepted: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Compare the queries of the running release with a standby's; return (refusals, notes), one sentence each.

    :param accepted: checkpoints that the deployment's form names as added, dropped or changed on purpose.
    """
    before = {q["checkpoint"].rstrip("/"): q for q in old}
    after = {q["checkpoint"].rstrip("/"): q for q in new}
    known = {name.rstrip("/") for name in accepted}
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
    for checkpoint in before:
        # A query that the script started late is known by its heartbeat only: that it is, not what it does.
        described = "fingerprint" in before[checkpoint]
        if checkpoint in after and checkpoint not in known and described:
            found, noted = _compare_query(before[checkpoint], after[checkpoint])
            refusals += found
            notes += noted
    return refusals, notes


def _compare_query(old: QueryFacts, new: QueryFacts) -> tuple[list[str], list[str]]:
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
    notes = [
        f"The query {name} keeps {key} as its checkpoint has it; this release's {new['conf'][key]} is ignored."
        for key in old["conf"]
        if key in new["conf"] and old["conf"][key] != new["conf"][key] and not key.endswith("checkpointFormatVersion")
    ]
    version = "spark.sql.streaming.stateStore.checkpointFormatVersion"
    if old["conf"].get(version) != new["conf"].get(version):
        refusals.append(f"The query {name} changes {version}: its state cannot be read with the other format.")
    return refusals, notes


def _kind(query: QueryFacts) -> str:
    return "file" if query["sink"] in ("parquet", "json", "csv", "orc", "text") else "other"


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
