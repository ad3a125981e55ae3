"""The entries of the form's `changed_checkpoints`: one change on purpose for each. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum

from airflow_stream_provider.lifecycle.errors import SpecError

# A location has no colon in front of a space, unless its folder's name has.
_WHAT = re.compile(r"(?P<location>.*\S)\s*:\s+(?P<what>\S*)\s*")


class Change(str, Enum):
    """The changes that may be on purpose. An entry without a word is the first one."""

    CHECKPOINT = ""  # `PATH`: it is added or dropped
    SOURCE = "source"  # `PATH: source`: the query reads elsewhere, or another cluster
    SINK = "sink"  # `PATH: sink`: the query writes elsewhere
    SINK_LOG = "sink_log"  # `PATH: sink_log`: its sink drops batches whose numbers it remembers


def parsed(entry: str) -> tuple[str, Change]:
    """Return the checkpoint that an entry names, and its change.

    :raises SpecError: behind the colon is no such change.
    """
    found = _WHAT.fullmatch(entry)
    if found is None:
        return entry, Change.CHECKPOINT
    try:
        return found["location"], Change(found["what"])
    except ValueError:
        words = ", ".join(change.value for change in Change if change.value)
        raise SpecError(
            f"`changed_checkpoints` has {entry!r:.200}, and {found['what']!r:.50} is no change that can be named.",
            next_step=f"Write PATH for a checkpoint that is added or dropped, or PATH: and one of {words}.",
        ) from None


def locations(entries: Sequence[str], change: Change) -> list[str]:
    """Return the checkpoints that the entries name for this change, as they are written."""
    return [location for location, what in map(parsed, entries) if what is change]
