"""A piece of advice: what was measured, what to change, and what that is expected to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from airflow_stream_provider.lifecycle.trial import Trial


class Where(StrEnum):
    """Where a change is made."""

    CONF = "conf"  # of the YAML
    OPTION = "source option"  # in the script, which may take it as an argument
    SCRIPT = "script"
    CLUSTER = "cluster"
    CHECKPOINT = "new checkpoint"  # Spark keeps the setting that is in the checkpoint


@dataclass(frozen=True)
class Change:
    """One change of a stream.

    :param what: a clause for people.
    :param conf: the settings, where it is some.
    :param options: the options of the source, by name in lower case.
    :param persist: whether each batch is to be persisted.
    """

    where: Where
    what: str
    conf: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    persist: bool = False

    @property
    def trial(self) -> Trial | None:
        """The trial that proves it; None: no trial can."""
        found = Trial(self.conf, self.options, self.persist)
        return found if found.changes else None


@dataclass(frozen=True)
class Proposal:
    """The proposal of one rule for one query. It applies nothing: a trial comes first.

    :param rule: its name.
    :param query: the query's label.
    :param found: the numbers that led to it, a sentence.
    :param predicted: how many times faster a record becomes; None: the numbers do not say.
    :param bound: `at least` or `at most`, where that is all that is known.
    :param needs: what has to be so that the change may be made; empty: nothing.
    """

    rule: str
    query: str
    found: str
    change: Change
    predicted: float | None = None
    bound: str = ""
    needs: str = ""

    @property
    def expected(self) -> str:
        """The prediction, for people."""
        return "" if self.predicted is None else f"{self.bound} {self.predicted:.1f} ×".strip()

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self)
