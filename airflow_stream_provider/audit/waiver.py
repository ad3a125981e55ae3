"""Waivers: findings that somebody accepts, with a reason and until a day."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from airflow_stream_provider.audit.check import Finding
from airflow_stream_provider.audit.checks import CHECKS
from airflow_stream_provider.lifecycle.errors import SpecError


@dataclass(frozen=True)
class Waiver:
    """Accept the findings of one check until a day: they stay in the report, and do not fail the task.

    :param check: name of the check.
    :param reason: why they are accepted, for the report.
    :param until: the last day on which it holds, in UTC.
    :param subject: what it is about, as findings name it, such as ``topic orders``, ``broker 3`` or ``the cluster``;
        default empty: everything that the check examines.
    :raises SpecError: there is no such check, the reason is empty, or `until` is not a day.
    """

    check: str
    reason: str
    until: date
    subject: str = ""

    def __post_init__(self) -> None:
        """Refuse what could never hold."""
        known = [each.name for each in CHECKS]
        if self.check not in known:
            close = difflib.get_close_matches(self.check, known, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else "docs/audit.md lists them."
            raise SpecError(f"The audit has no check {self.check!r} to waive.", next_step=hint, check=self.check)
        if not self.reason.strip():
            raise SpecError(f"The waiver of {self.check} has no reason.", next_step="Give reason=.", check=self.check)
        # A datetime is a date to Python, but has no place in a comparison of days.
        if not isinstance(self.until, date) or isinstance(self.until, datetime):
            raise SpecError(
                f"The waiver of {self.check} has no day as its end: {self.until!r}.",
                next_step="Give until=datetime.date(YEAR, MONTH, DAY).",
                check=self.check,
            )

    def expired(self, at: float) -> bool:
        """Return whether its last day is over.

        :param at: the time of the audit, in seconds since 1970.
        """
        return datetime.fromtimestamp(at, UTC).date() > self.until

    def covers(self, finding: Finding) -> bool:
        """Return whether it is about a finding, expired or not."""
        return self.check == finding.check and self.subject in ("", finding.subject)

    def __str__(self) -> str:
        subject = f", {self.subject}" if self.subject else ""
        return f"{self.check}{subject}, until {self.until.isoformat()}: {self.reason}"


def waiver_of(finding: Finding, waivers: Sequence[Waiver], at: float) -> Waiver | None:
    """Return the waiver that holds for a finding; of several the one that holds longest. None: it is not waived."""
    holding = [waiver for waiver in waivers if waiver.covers(finding) and not waiver.expired(at)]
    return max(holding, key=lambda waiver: waiver.until, default=None)
