"""The orders that are in the output too often, by their batch, each with what cut that batch off."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaos.batches import Batch, Batches
from chaos.holds import TICK_SECONDS, Hold
from chaos.interruptions import Interruption, explanations
from chaos.records import Comparison, some


@dataclass(frozen=True)
class Doubled:
    """The doubled orders of one batch, with one reason.

    :param copies: by number of the order, how many are too many.
    :param batch: what they were doubled in, and when it was open; None: nobody has seen its plan.
    :param cause: what cut it off; None: nothing did.
    :param strange: why that does not explain these copies, as half a sentence; empty when it does.
    """

    copies: Mapping[int, int]
    batch: Batch | None
    cause: Interruption | None
    strange: str = ""

    @property
    def explained(self) -> bool:
        """Whether what cut off the batch explains these copies."""
        return self.cause is not None and not self.strange

    @property
    def says(self) -> str:
        """Which orders they are, and why they were doubled."""
        which = f"{len(self.copies)} orders were doubled ({some(list(self.copies))})"
        if self.batch is None:
            return f"{which}, and nobody has seen the plan of their batch. Give the run more of the machine."
        committed = "still open" if self.batch.committed is None else f"committed at {self.batch.committed:.1f}"
        when = f"batch {self.batch.number} of enrich, planned at {self.batch.planned:.1f}, {committed}"
        if self.cause is None:
            return f"{which} without a reason: nothing cut off {when}. Look at who ran it."
        if self.strange:
            return f"{which}, and {self.strange}: {self.cause.says} cut off {when}. Look at who ran it."
        return f"{which}: {self.cause.says} cut off {when}."


def explain(
    compared: Comparison, batches: Batches, among: Sequence[Interruption], held: Sequence[Hold]
) -> list[Doubled]:
    """Return the doubled orders by their batch and by what explains them, or does not.

    :param batches: those of the query that writes the orders.
    :param among: everything that may have cut off a batch.
    :param held: all holds by the log.
    """
    of: dict[tuple[int | None, str], Doubled] = {}
    copies: dict[int, int]
    for number, extra in compared.doubled.items():
        batch, times, written = _where(number, compared, batches)
        cuts = explanations(batch, among, held) if batch else []
        strange = _strange(batch, times, written, cuts, held) if batch and cuts else ""
        key = (batch.number if batch else None, strange)
        copies = {**of[key].copies, number: extra} if key in of else {number: extra}
        of[key] = Doubled(copies, batch, cuts[0] if cuts else None, strange)
    return list(of.values())


def _where(number: int, compared: Comparison, batches: Batches) -> tuple[Batch | None, int, Sequence[float]]:
    """Return the batch that doubled an order, how often it read it, and when its copies were written."""
    places, written = compared.produced[number], compared.written[number]
    found = [batches.holding(*place) for place in places]
    if len(places) == 1 or None in found or all(batch == found[0] for batch in found):
        return found[0], len(places), written
    wrote = [batches.open_at(at) for at in written]
    batch = max(wrote, key=lambda each: wrote.count(each) - found.count(each))
    return batch, max(found.count(batch), 1), [at for at, each in zip(written, wrote, strict=True) if each == batch]


def _strange(
    batch: Batch, times: int, written: Sequence[float], cuts: Sequence[Interruption], held: Sequence[Hold]
) -> str:
    """Return why so many copies, written then, cannot be those of runs that were cut off; empty when they can.

    Each run writes an order once. A run ends with the hold of its driver: what is written later is the next one's.
    """
    if len(written) > times * (1 + len(cuts)):
        return "more often than their batch was cut off"
    # An `acquired` is at most a tick younger than its file says.
    begins = [-math.inf, *(hold.since + TICK_SECONDS for hold in held[1:]), math.inf]
    last: Hold | None = None
    for hold, since, until in zip(held, begins, begins[1:], strict=False):
        wrote = sum(since <= at < until for at in written)
        if not wrote:
            continue
        again = [
            cut
            for cut in cuts
            if not cut.of_hold and cut.incarnation in ("", hold.incarnation)
            if cut.since <= hold.until and hold.since <= cut.until
        ]
        if wrote > (times * (1 + len(again)) if hold.ran(batch) else 0):
            return f"not only {hold.incarnation} wrote them while it held"
        if last is not None and not any(cut.incarnation == last.incarnation and not cut.of_tasks for cut in cuts):
            return f"{hold.incarnation} ran again what {last.incarnation} had written before it let go by itself"
        last = hold
    return ""
