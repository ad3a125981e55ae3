"""One attempt to measure a lag: a report, or the reason why there is none."""

from __future__ import annotations

import time
from dataclasses import dataclass

from airflow_stream_provider.lag.limits import Health, LagJudgement, LagLimits
from airflow_stream_provider.lag.report import LagReport


@dataclass(frozen=True)
class LagLook:
    """The finding of one moment.

    :param at: seconds since 1970.
    :param report: None when the lag could not be measured.
    :param problem: why it could not be measured; empty when it was.
    """

    at: float
    report: LagReport | None
    problem: str = ""

    @classmethod
    def of(cls, report: LagReport) -> LagLook:
        """Build the look that found this report."""
        return cls(report.at, report)

    @classmethod
    def failed(cls, error: Exception, at: float | None = None) -> LagLook:
        """Build the look that found only this error. `at`: default now."""
        return cls(time.time() if at is None else at, None, str(error))

    def judge(self, limits: LagLimits) -> LagJudgement:
        """Judge the report; UNKNOWN when there is none."""
        if self.report is None:
            return LagJudgement(Health.UNKNOWN, (self.problem,))
        return limits.judge(self.report)
