"""What came of upgrades and roll-backs, by the control log and the journal: what they say they did, they have done."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind, Record
from chaos.holds import Hold
from chaos.plan import BAD, FENCE, FILES, REFUSED, RESTART, ROLL_BACK, START, STOP, STORAGE, log_target
from chaos.stillness import stops_commits
from devstack.airflow_api import FINAL
from devstack.places import Pair

# So long after a fault an upgrade may still end otherwise because of it: what has piled up is being read.
AFTERMATH_SECONDS = 60.0
EITHER = ""
"""What is expected of an upgrade whose end depends on who comes first."""

Journal = Sequence[Mapping[str, Any]]
Records = Sequence[tuple[Record, float]]


def wrong_holders(journal: Journal, records: Records, held: Sequence[Hold], pair: Pair = FILES) -> list[str]:
    """Return a sentence for each upgrade whose release held although it may not, whatever faults there were.

    A bad one may stay where the task that judges it may have been struck, by a fault of Airflow, of the control log, or
    of the storage that it reads releases from: it takes back only what it found to be bad.

    :param records: the control log; its `wanted` records name the run that an upgrade is.
    :param held: all holds by the log.
    :param pair: where the stream keeps its control log and its files.
    """
    needed = (log_target(pair), STORAGE)
    unjudged = [(at, over) for at, over, target in _faults(journal) if target in needed or not stops_commits(target)]
    found = []
    for line in _ended(journal, REFUSED, BAD):
        holds = [hold for hold in held if deployment_of(hold.incarnation) in _declared(line, records)]
        if line["kind"] == REFUSED and holds:
            found.append(
                f"{holds[0].incarnation} acquired, though its release was to be refused (run {line['run']}). Read what "
                "its rehearsal found."
            )
        at_end = [hold for hold in holds if hold.since <= line["at"] < hold.until]
        judged = line["ended"] == "success" or not _meets(line, unjudged)
        if line["kind"] == BAD and line["ended"] in FINAL and at_end and judged:
            found.append(
                f"{at_end[0].incarnation} of a bad release still held when its run {line['run']} ended as "
                f"{line['ended']}. Read the logs of its soak."
            )
    return found


def untrue_successes(journal: Journal, records: Records, held: Sequence[Hold]) -> list[str]:
    """Return a sentence for each run that ended as success and changed nothing, whatever faults there were.

    An upgrade has made a deployment hold that serves its wish, whoever has declared that.

    :param held: all holds by the log.
    """
    found = []
    for line in journal:
        if line["what"] != "upgrade" or line["ended"] != "success" or line["kind"] in (REFUSED, BAD):
            continue
        began = line["at"] - line["seconds"]
        holders = {deployment_of(hold.incarnation) for hold in held if began <= hold.since <= line["at"]}
        if not holders & _declared(line, records):
            found.append(
                f"The run {line['run']} ({line['kind']}) ended as success, and no deployment of it acquired. "
                "Read the logs of its tasks."
            )
    return found


def untrue_operations(journal: Journal, records: Records, held: Sequence[Hold]) -> list[str]:
    """Return a sentence for each task of `NAME__operate` that says it did what the log does not show.

    A start and a restart have made a deployment hold, a roll-back another one than before, unless it wished that the
    holder stays, as another release was to take over. When a stop ends nobody holds. A fence has left its record.

    :param held: all holds by the log.
    """
    found = []
    for line in journal:
        if line["what"] != "operation":
            continue
        began, did = line["at"] - line["seconds"], line["did"]
        came = {deployment_of(hold.incarnation) for hold in held if began <= hold.since <= line["at"]}
        fenced = any(record.kind == Kind.FENCED and began <= at <= line["at"] for record, at in records)
        untrue = {
            START: not came,
            RESTART: not came,
            ROLL_BACK: not came - {line["holder"]} and not _stays(line, records),
            STOP: any(hold.since <= line["at"] < hold.until for hold in held),
            FENCE: not fenced,
        }
        found += [
            f"The task {task} of the run {line['run']} ended as success, and the control log does not show that. "
            "Read its log."
            for task in did
            if untrue.get(task)
        ]
    return found


def unexpected_ends(journal: Journal) -> list[str]:
    """Return a sentence for each upgrade that ended otherwise than without faults, though none was there.

    None was there when none lasted while it ran, and the stream had run again for a minute since the last one.
    """
    faults = [(at, over + AFTERMATH_SECONDS) for at, over, _ in _faults(journal)]
    return [
        f"The run {line['run']} ({line['kind']}) ended as {line['ended']} instead of {line['expected']}, and no fault "
        "explains it. Read the logs of its tasks."
        for line in journal
        if line["what"] in ("upgrade", "operation")
        if line["ended"] in FINAL and line["expected"] not in (EITHER, line["ended"])
        if not _meets(line, faults)
    ]


def _ended(journal: Journal, *kinds: str) -> Iterable[Mapping[str, Any]]:
    return (line for line in journal if line["what"] == "upgrade" and line["kind"] in kinds)


def _declared(line: Mapping[str, Any], records: Records) -> set[str]:
    """Return the deployments that serve a release which the run of an upgrade has brought in."""
    wished = {
        record["wish"]
        for record, _ in records
        if record.kind == Kind.WANTED and record.get("release") and f"/{line['run']}/" in record.by
    }
    return {r["deployment"] for r, _ in records if r.kind == Kind.DECLARED and r.get("family") in wished}


def _stays(line: Mapping[str, Any], records: Records) -> bool:
    """Whether the run of a roll-back has wished that the holder goes on."""
    declared = (r for r, _ in records if r.kind == Kind.DECLARED and r["deployment"] == line["holder"])
    family = next((record.get("family") for record in declared), None)
    mine = (r for r, _ in records if r.kind == Kind.WANTED and f"/{line['run']}/" in r.by)
    return any(record.get("back") and record.get("family") == family for record in mine)


def _faults(journal: Journal) -> list[tuple[float, float, str]]:
    """Return when each fault began, when the stream ran again after it, and its target."""
    healed = {line["id"]: float(line["at"]) for line in journal if line["what"] == "healed"}
    recovered = [float(line["at"]) for line in journal if line["what"] == "recovered"]
    found = []
    for line in journal:
        if line["what"] == "fault":
            over = healed.get(line["id"], math.inf)
            if stops_commits(line["target"]):
                over = min((at for at in recovered if at >= over), default=over)
            found.append((float(line["at"]), over, str(line["target"])))
    return found


def _meets(line: Mapping[str, Any], spans: Iterable[tuple[float, float]]) -> bool:
    return any(begin <= line["at"] and line["at"] - line["seconds"] <= end for begin, end in spans)
