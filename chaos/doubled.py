"""The orders that are in the output too often, by their batch, each with what cut that batch off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaos.batches import Batch, Batches
from chaos.holds import Hold
from chaos.interruptions import Interruption, explanation
from chaos.records import Comparison, some


@dataclass(frozen=True)
class Doubled:
    """The doubled orders of one batch.

    :param copies: by number of the order, how many are too many.
    :param batch: what they were doubled in, and when it was open; None: nobody has seen its plan.
    :param cause: what cut it off; None: nothing did.
    """

    copies: Mapping[int, int]
    batch: Batch | None
    cause: Interruption | None

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
        return f"{which}: {self.cause.says} cut off {when}."


def explain(
    compared: Comparison, batches: Batches, among: Sequence[Interruption], held: Sequence[Hold]
) -> list[Doubled]:
    """Return the doubled orders by their batch, each with what explains it.

    :param batches: those of the query that writes the orders.
    :param among: everything that may have cut off a batch.
    :param held: all holds by the log.
    """
    of: dict[int | None, tuple[Batch | None, dict[int, int]]] = {}
    for number, copies in compared.doubled.items():
        batch = batches.holding(*compared.produced[number][0])
        of.setdefault(batch.number if batch else None, (batch, {}))[1][number] = copies
    return [Doubled(copies, batch, explanation(batch, among, held) if batch else None) for batch, copies in of.values()]
