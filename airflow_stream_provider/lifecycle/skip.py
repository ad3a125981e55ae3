"""Records that a stream leaves out by a person's wish: `skip` in the policy of its releases, one text for each. Pure.

A driver that does not know the list loses nothing by it: it reads the records, and fails at them as before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.state import StreamState

# A longer list is no list of bad records.
MOST_SKIPPED = 1000
_RECORD = re.compile(r"([A-Za-z0-9._-]{1,249})-([0-9]{1,9})@([0-9]{1,18})(?:@(-?[0-9]{1,18}))?")
# The columns of Spark's Kafka source that tell a record from any other.
_ONE = "(topic = '{}' AND partition = {} AND offset = {} AND unix_millis(timestamp) = {})"


class KafkaRecord(NamedTuple):
    """One record.

    :param timestamp: its own, in milliseconds since 1970: where a topic was made anew, or on another Kafka, the record
        of this offset is another one. None: it is not known, as of one that a person names.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int | None = None

    def __str__(self) -> str:
        end = "" if self.timestamp is None else f"@{self.timestamp}"
        return f"{self.topic}-{self.partition}@{self.offset}{end}"

    @property
    def name(self) -> str:
        """How a person names it: ``orders-3@1234``."""
        return str(self._replace(timestamp=None))

    @classmethod
    def of(cls, text: str) -> KafkaRecord:
        """Return the record of a text.

        :raises SpecError: it names none.
        """
        found = _RECORD.fullmatch(text.strip())
        if found is None:
            raise SpecError(
                f"{text!r:.100} names no record.", next_step="Write TOPIC-PARTITION@OFFSET, such as orders-3@1234."
            )
        timestamp = None if found[4] is None else int(found[4])
        return cls(found[1], int(found[2]), int(found[3]), timestamp)


def all_but(skip: Iterable[str]) -> str:
    """Return Spark's condition that holds for every record of a Kafka source but these.

    :raises SpecError: one of them is no record with a timestamp.
    """
    records = [KafkaRecord.of(text) for text in skip]
    for each in records:
        if each.timestamp is None:
            raise SpecError(f"{each} has no timestamp.", next_step="Use `airflow streams dossier --skip`.")
    return f"NOT ({' OR '.join(_ONE.format(*each) for each in records)})"


def skipped(state: StreamState) -> tuple[str, ...]:
    """Return what the stream leaves out, by the newest wish or deployment that says so; an older provider says nothing.

    It is the stream's: every release that is brought in, or brought back, gets it.
    """
    records = [*(each.record for each in state.wishes.values()), *(d.declared for d in state.deployments.values())]
    said: list[tuple[int, Any]] = [
        (each.seq, policy["skip"])
        for each in records
        if isinstance(policy := each.get("policy"), Mapping) and "skip" in policy
    ]
    return tuple(max(said, key=lambda each: each[0])[1]) if said else ()
