"""A trial: settings that a standby measures against the present ones, on clones; it never comes to hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_stream_provider.lifecycle.stored import known_fields


@dataclass(frozen=True)
class Trial:
    """The settings of a trial, and what was known when it was asked for. It travels in the policy of its deployment.

    :param conf: SQL settings of the session, by name.
    :param options: options of the Kafka sources, by name in lower case.
    :param persist: whether each batch is persisted before the function of foreachBatch gets it.
    :param batches: of each side that are measured.
    :param rule: that has advised it; empty: none has.
    :param predicted: how many times faster the rule expects a record to be; None: it does not say.
    :param before: seconds that the holder took for each record then, by query.
    """

    conf: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    persist: bool = False
    batches: int = 20
    rule: str = ""
    predicted: float | None = None
    before: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Trial:
        """Return what `to_json` wrote; fields that this version does not know are ignored."""
        return cls(**known_fields(cls, data))

    @property
    def changes(self) -> str:
        """The changed settings, for people."""
        named = [f"{name}={value}" for name, value in (*self.conf.items(), *self.options.items())]
        return ", ".join([*named, *(["persist"] if self.persist else [])])

    def same_change(self, other: Trial) -> bool:
        """Whether both change the same, whatever was known."""
        return (self.conf, self.options, self.persist) == (other.conf, other.options, other.persist)
