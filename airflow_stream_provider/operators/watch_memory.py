"""The memory that a look of the watch leaves in XCom for the next one."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_stream_provider.lifecycle.stored import known_fields

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LookMemory:
    """The memory of a look for the next one; small, since every look writes one.

    :param at: date of the last scheduled look that did not fail, seconds since 1970; 0: none.
    :param streams: what `look_at_all` left.
    :param incident: that the watch itself fails, as `tell_of_watch` left it.
    :param files: that YAML files cannot be used, as `tell_of_watch` left it.
    :param skipped: whether the last look left its work to one that waited.
    :param moved: the control URLs that streams had before, of those that have moved without being told to.
    :param broken: the streams whose YAML cannot be used; see `told_in_common`.
    :param unusable: how many files the incident of `files` is about.
    :param declared: hash of the good declarations that were kept last, and when: seconds since 1970.
    :param revived: the last stream that was to be brought back: the next look begins after it.
    """

    at: float = 0.0
    streams: Mapping[str, Any] = field(default_factory=dict)
    incident: Mapping[str, Any] = field(default_factory=dict)
    declared: str = ""
    declared_at: float = 0.0
    revived: str = ""
    files: Mapping[str, Any] = field(default_factory=dict)
    skipped: bool = False
    moved: Mapping[str, str] = field(default_factory=dict)
    broken: Mapping[str, bool] = field(default_factory=dict)
    unusable: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> LookMemory:
        """Return what `to_json` wrote; nothing when there is none, or another version wrote it."""
        try:
            return cls(**known_fields(cls, data or {}))
        except ValueError:
            log.warning("What the last look left was written by another version; beginning anew.")
            return cls()
