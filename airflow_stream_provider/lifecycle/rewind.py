"""From where the queries of a deployment read Kafka records again: the optional field `rewind` of `declared`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from airflow_stream_provider.lifecycle.errors import SpecError

# By topic and partition, the next offset to read.
Offsets = Mapping[str, Mapping[int, int]]

# The end of what a `datetime` holds, in seconds since 1970.
_LAST_SECOND = 253402300799.0


@dataclass(frozen=True)
class WantedRewind:
    """The time that a person has asked for, and where that is in Kafka.

    :param to: the time, in seconds since 1970.
    :param queries: by query, the first record of each partition that is read again.
    """

    to: float
    queries: Mapping[str, Offsets]

    def to_json(self) -> dict[str, Any]:
        """Return it as the JSON object that `declared` carries."""
        queries = {
            query: {topic: {str(part): offset for part, offset in parts.items()} for topic, parts in offsets.items()}
            for query, offsets in self.queries.items()
        }
        return {"to": self.to, "queries": queries}

    @classmethod
    def from_json(cls, data: Any) -> WantedRewind:
        """Return what `to_json` wrote.

        :raises SpecError: it is something else.
        """
        try:
            queries = {
                str(query): {
                    str(topic): {int(part): _offset(offset) for part, offset in parts.items()}
                    for topic, parts in offsets.items()
                }
                for query, offsets in data["queries"].items()
            }
            if not queries:
                raise ValueError("no query")
            to = float(data["to"])
            if not to >= 0:
                raise ValueError(to)
            return cls(to, queries)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise SpecError(
                "What is to be read again is not what `airflow streams rewind` makes of a time.",
                next_step="Use that, or the operation `rewind` of the form, and fill in nothing by hand.",
            ) from error


def back_to(committed: Offsets, to: Offsets) -> dict[str, dict[int, int]]:
    """Return where a query is, by topic and partition, once it has gone back to these offsets; it never goes on."""
    return {
        topic: {part: min(offset, to.get(topic, {}).get(part, offset)) for part, offset in parts.items()}
        for topic, parts in committed.items()
    }


def at(moment: float) -> str:
    """Return a time in seconds since 1970 for a person, in UTC, to the millisecond: `planning.rewind.moment` reads it.

    The timestamp of a record may be later than a `datetime` holds: a producer that counts in microseconds writes such.
    """
    # Python 3.9 has no datetime.UTC.
    found = datetime.fromtimestamp(min(moment, _LAST_SECOND), timezone.utc)
    fraction = f".{found.microsecond // 1000:03d}" if found.microsecond >= 1000 else ""
    return f"{found:%Y-%m-%d %H:%M:%S}{fraction} UTC"


def _offset(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(value)
    return value
