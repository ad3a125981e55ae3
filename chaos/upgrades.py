"""What came of upgrades, by the control log: no refused release ever holds, and no bad one stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind, Record
from chaos.holds import Hold
from chaos.plan import BAD, REFUSED
from devstack.airflow_api import FINAL


def wrong_holders(
    journal: Sequence[Mapping[str, Any]], records: Sequence[tuple[Record, float]], held: Sequence[Hold]
) -> list[str]:
    """Return a sentence for each upgrade whose release held although it may not, whatever faults there were.

    :param records: the control log; its `declared` records name the run that an upgrade is.
    :param held: all holds by the log.
    """
    found = []
    for line in journal:
        if line["what"] != "upgrade" or line["kind"] not in (REFUSED, BAD):
            continue
        deployments = {r["deployment"] for r, _ in records if r.kind == Kind.DECLARED and f"/{line['run']}/" in r.by}
        holds = [hold for hold in held if deployment_of(hold.incarnation) in deployments]
        if line["kind"] == REFUSED and holds:
            found.append(
                f"{holds[0].incarnation} acquired, though its release was to be refused (run {line['run']}). Read what "
                "its rehearsal found."
            )
        at_end = [hold for hold in holds if hold.since <= line["at"] < hold.until]
        if line["kind"] == BAD and line["ended"] in FINAL and at_end:
            found.append(
                f"{at_end[0].incarnation} of a bad release still held when its run {line['run']} ended as "
                f"{line['ended']}. Read the logs of its soak."
            )
    return found
