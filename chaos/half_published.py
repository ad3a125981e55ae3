"""What a publish of a release may leave behind when it is cut off, and which fault of the journal has done that.

A publish writes `.HASH.UUID` beside the releases and renames it at the end; the clean-up asks for the time with
`.time.UUID`. Who is killed, or whose storage is out of reach while it would remove that, leaves it. The hourly clean-up
of the watch removes it when it is a day old (`releases.place.IDLE_SECONDS`), so no run lives to see it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_stream_provider.checkpoint.files import Place
from airflow_stream_provider.lifecycle.ids import RELEASE_HASH
from chaos.interruptions import NOTED_WITHIN
from chaos.leftovers import beginning
from devstack.commits import written_at

# The next file of a release is written, or given up by Airflow's client of HDFS, in that time.
STEP_SECONDS = 30.0

_NAME = re.compile(rf"\.(?:{RELEASE_HASH.pattern}|time)\.[0-9a-f]{{32}}")
# Who publishes and cleans up are tasks of Airflow, and they die with its scheduler.
_WRITERS = ("task", "scheduler")


def half_published(releases: Place, control: Place | None, journal: Sequence[Mapping[str, Any]]) -> dict[Place, str]:
    """Return what may lie in the folder of the releases, each with a sentence that says why.

    It has such a name, and was last written when a fault cut off who wrote there.

    :param releases: the folder of the stream's releases.
    :param control: the stream's folder in the control root; None: there is none.
    :param journal: of the run.
    :raises OSError: the storage does not answer.
    """
    in_control = control is not None and releases == control / "releases"
    healed = {line["id"]: float(line["at"]) for line in journal if line["what"] == "healed"}
    cuts = [
        (fault, *_span(fault, healed)) for fault in journal if fault["what"] == "fault" and _cuts(fault, in_control)
    ]
    found = {}
    for path in (each for each in beginning(releases, ".") if _NAME.fullmatch(each.name)):
        at = written_at(path)
        by = [fault for fault, since, until in cuts if at is not None and since <= at <= until]
        if by:
            found[path] = (
                f"{path} was left by a writer that fault {by[0]['id']} ({by[0]['kind']} of {by[0]['target']}) cut off. "
                "The clean-up of the watch removes it when it is a day old."
            )
    return found


def _cuts(fault: Mapping[str, Any], in_control: bool) -> bool:
    """Whether a fault can keep a writer from removing what it has begun."""
    kind, target = fault["kind"], fault["target"]
    if target == "control":
        return in_control and kind != "torn_heartbeat"
    return (kind == "freeze" and target == "storage") or (kind == "kill" and target in _WRITERS)


def _span(fault: Mapping[str, Any], healed: Mapping[str, float]) -> tuple[float, float]:
    """Return when something was last written that a fault has cut off, as first and last time."""
    at = float(fault["at"])
    if fault["kind"] == "kill":
        return at - NOTED_WITHIN - STEP_SECONDS, at
    # What was sent while the storage did not answer, it may carry out when it goes on.
    return at - NOTED_WITHIN - STEP_SECONDS, healed.get(fault["id"], math.inf) + STEP_SECONDS
