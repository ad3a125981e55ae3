"""The differences between the clusters, as data: docs/clusters.md has the table of them."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Traits:
    """The differences of one kind of cluster from the others; sentences are for people.

    :param name: what it is called.
    :param seconds_after_term: from SIGTERM to SIGKILL, when a driver is killed: a driver that takes longer to reach a
        batch boundary is not released.
    :param reserves_ids: whether the id of a driver is known before it is sent; see `Cluster.reserve`.
    :param relaunched_by: the component that starts a driver again that has ended.
    :param gone_means: what confirms that nothing is left of a driver.
    :param lost_machine: what is known of a driver whose machine is out of reach.
    """

    name: str
    seconds_after_term: float
    reserves_ids: bool
    relaunched_by: str
    gone_means: str
    lost_machine: str


def table(*clusters: Traits) -> str:
    """Return a Markdown table, with a row for each trait."""
    rows = {
        "time after SIGTERM": [f"{each.seconds_after_term:g} s" for each in clusters],
        "id before it starts": ["yes" if each.reserves_ids else "no" for each in clusters],
        "relaunches": [each.relaunched_by for each in clusters],
        "gone": [each.gone_means for each in clusters],
        "lost machine": [each.lost_machine for each in clusters],
    }
    assert len(rows) == len(fields(Traits)) - 1
    lines = [("", *(each.name for each in clusters)), ("---",) * (len(clusters) + 1)]
    lines += [(name, *cells) for name, cells in rows.items()]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines).replace("|  |", "| |")
