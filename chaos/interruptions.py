"""What may cut a batch off, so that Spark runs it again: faults of the journal, and holds that ended in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.batches import Batch
from chaos.holds import Hold
from chaos.plan import CHECKPOINT, CHECKPOINT_EXTRAS

# A fault is noted when it has happened.
NOTED_WITHIN = 1.0
# How long the cluster reacts after one of its parts is back: a master has executors killed that it does not know, a
# worker that was given up is told to kill its own. A broker or storage only takes what waited for it.
SETTLE_SECONDS = {"worker": 30.0, "master": 30.0, "broker": 10.0, "storage": 10.0, CHECKPOINT: 10.0}

DRIVERS = ("holder", "standby", "holder_python", "standby_python")
"""Targets that are one driver; the fault's `incarnation` says which. Of an executor it says whose that was."""
CLUSTER = ("worker", "master", "broker", "storage", CHECKPOINT)
"""Targets of which the tasks or writes of any driver may die or time out, until they are back and for some time after.
"""
CUTS_OFF = ("kill", "freeze", "clock_jump", *CHECKPOINT_EXTRAS)
"""Kinds of faults that can cut off a batch. Those of the control folder show as a hold that ended, or not at all."""


@dataclass(frozen=True)
class Interruption:
    """One of them.

    :param since: when it began, in seconds since 1970.
    :param until: when its effects were over.
    :param incarnation: whose batches it cuts off; empty: those of whoever ran then.
    :param says: what happened, as half a sentence.
    :param of_tasks: whether only tasks of that driver were cut off, which it tries again.
    :param of_hold: whether it is the end of that driver's hold, after which it runs nothing again.
    """

    since: float
    until: float
    incarnation: str
    says: str
    of_hold: bool = False
    of_tasks: bool = False


def interruptions(journal: Sequence[Mapping[str, Any]], found: Sequence[Hold]) -> list[Interruption]:
    """Return everything that may have cut off a batch, in the order of time.

    :param journal: the journal of the run.
    :param found: all holds by the log.
    """
    healed = {line["id"]: line["at"] for line in journal if line["what"] == "healed"}
    ended = [
        Interruption(h.until, h.until, h.incarnation, f"the hold of {h.incarnation} ended as {h.end.kind}", True)
        for h in found
        if h.end is not None and h.cut_off
    ]
    faults = [_of_fault(line, healed.get(line["id"])) for line in journal if line["what"] == "fault"]
    return sorted((*ended, *(each for each in faults if each)), key=lambda each: each.since)


def explanations(batch: Batch, among: Sequence[Interruption], found: Sequence[Hold]) -> list[Interruption]:
    """Return what cut this batch off: it was open then, and ran in the driver that was struck. Empty: nothing did.

    The end of a hold is left out when a fault on its driver is among them, whose consequence it may be.
    """
    cuts = [
        each
        for each in among
        if not each.incarnation or any(h.incarnation == each.incarnation and h.ran(batch) for h in found)
        if batch.open_within(each.since, each.until)
    ]
    struck = {each.incarnation for each in cuts if not each.of_hold and not each.of_tasks}
    return [each for each in cuts if not each.of_hold or each.incarnation not in struck]


def _of_fault(fault: Mapping[str, Any], healed: float | None) -> Interruption | None:
    kind, target, at = fault["kind"], fault["target"], fault["at"]
    if kind not in CUTS_OFF or target not in (*DRIVERS, *CLUSTER, "executor"):
        return None
    if target not in CLUSTER and not fault["incarnation"]:
        return None  # it may have been any driver, so it explains nothing
    over = at
    if kind == "freeze":
        over = max(healed or at, at + fault["seconds"])
    if target in CLUSTER:
        over = max(over, healed or at) + SETTLE_SECONDS[target]
    struck = "" if target in CLUSTER else fault["incarnation"]
    says = f"fault {fault['id']} ({kind} of {target})"
    return Interruption(at - NOTED_WITHIN, over, struck, says, of_tasks=target == "executor")
