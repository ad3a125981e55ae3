"""What may cut a batch off, so that Spark runs it again: faults of the journal, and holds that ended in it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.batches import Batch
from chaos.holds import Hold

# A fault is noted when it has happened.
NOTED_WITHIN = 1.0
# How long the cluster reacts after one of its parts is back: a master has executors killed that it does not know, a
# broker takes what had timed out meanwhile.
SETTLE_SECONDS = 30.0

DRIVERS = ("holder", "standby", "holder_python", "standby_python")
"""Targets that are one driver; the fault's `incarnation` says which."""
CLUSTER = ("worker", "master", "broker")
"""Targets of which the tasks of any driver may die or time out, until they are back and for some time after."""
STOPS_PROCESSES = ("kill", "freeze", "clock_jump")
"""Kinds of faults that end or stop a process. Faults of the control folder show as a hold that ended, or not at all."""


@dataclass(frozen=True)
class Interruption:
    """One of them.

    :param since: when it began, in seconds since 1970.
    :param until: when its effects were over.
    :param incarnation: whose batches it cuts off; empty: those of whoever ran then.
    :param says: what happened, as half a sentence.
    """

    since: float
    until: float
    incarnation: str
    says: str


def interruptions(journal: Sequence[Mapping[str, Any]], found: Sequence[Hold]) -> list[Interruption]:
    """Return everything that may have cut off a batch, in the order of time.

    :param journal: the journal of the run.
    :param found: all holds by the log.
    """
    healed = {line["id"]: line["at"] for line in journal if line["what"] == "healed"}
    ended = [
        Interruption(h.until, h.until, h.incarnation, f"the hold of {h.incarnation} ended as {h.end.kind}")
        for h in found
        if h.end is not None and h.cut_off
    ]
    faults = [_of_fault(line, healed.get(line["id"])) for line in journal if line["what"] == "fault"]
    return sorted((*ended, *(each for each in faults if each)), key=lambda each: each.since)


def explanation(batch: Batch, among: Sequence[Interruption], found: Sequence[Hold]) -> Interruption | None:
    """Return what cut this batch off: it was open then, and ran in the driver that was struck. None: nothing did."""
    for each in among:
        if each.incarnation and not any(h.incarnation == each.incarnation and _ran(batch, h) for h in found):
            continue
        if batch.open_within(each.since, each.until):
            return each
    return None


def _of_fault(fault: Mapping[str, Any], healed: float | None) -> Interruption | None:
    kind, target, at = fault["kind"], fault["target"], fault["at"]
    if kind not in STOPS_PROCESSES or target not in (*DRIVERS, *CLUSTER, "executor"):
        return None
    if target in DRIVERS and not fault["incarnation"]:
        return None  # it may have been any driver, so it explains nothing
    over = at
    if kind == "freeze":
        over = max(healed or at, at + fault["seconds"])
    if target in CLUSTER:
        over = max(over, healed or at) + SETTLE_SECONDS
    struck = fault["incarnation"] if target in DRIVERS else ""
    return Interruption(at - NOTED_WITHIN, over, struck, f"fault {fault['id']} ({kind} of {target})")


def _ran(batch: Batch, hold: Hold) -> bool:
    """Whether the hold and the time in which the batch was open have a moment in common."""
    committed = math.inf if batch.committed is None else batch.committed
    return batch.planned <= hold.until and hold.since <= committed
