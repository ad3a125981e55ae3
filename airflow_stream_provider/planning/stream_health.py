"""Judge one look at a stream: does a driver run it, and is its lag within limits. Watch and soak share it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_stream_provider.lag.formatting import duration
from airflow_stream_provider.lag.limits import Health, LagJudgement, LagLimits
from airflow_stream_provider.lag.report import LagReport
from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.planning.begun import hindrance, seen_to
from airflow_stream_provider.planning.heartbeat_age import silence_limit
from airflow_stream_provider.planning.recovery_decision import tried_instead
from airflow_stream_provider.planning.snapshot import Snapshot

# In these phases the stream is not to run: by a person's word, or because its script has ended by itself, which people
# are told once; or it was never started.
RESTING = (StreamPhase.EMPTY, StreamPhase.STOPPED, StreamPhase.FINISHED)

# In these phases the stream may have no holder for a moment; a hand-over that hangs ends when its request expires.
CHANGING = (StreamPhase.STARTING, StreamPhase.HANDING_OVER)


@dataclass(frozen=True)
class RunJudgement:
    """Whether a driver runs the stream: the health, and the reason as a sentence; PASS and UNKNOWN need none."""

    health: Health
    reason: str = ""


def judge_run(snapshot: Snapshot, silent: float | None) -> RunJudgement:
    """Judge whether a driver runs the stream, if anybody wants that.

    UNKNOWN while it changes hands, and while the holder is silent, but not for long enough to be lost.

    :param silent: seconds for which the observer has seen the holder's heartbeat stand still; None: it has moved since
        the last look, or this is the first one.
    """
    state = snapshot.state
    if state.must_fence:
        return RunJudgement(Health.FAIL, f"{state.must_fence[0]} stopped inside a batch and is not confirmed dead.")
    if state.holder is None:
        if state.phase in RESTING:
            return RunJudgement(Health.PASS)
        if state.phase in CHANGING or seen_to(state, snapshot.at):
            return RunJudgement(Health.UNKNOWN)
        last = state.last_deployment
        why = f" {last.reason}" if last is not None and last.reason else ""
        age = snapshot.silent_seconds
        sign = "" if age is None else f"; the last sign of life is {duration(age)} old"
        reason = (
            f"Nobody runs it ({state.phase.value}{sign}).{why} {tried_instead(state, snapshot.at)} {hindrance(state)}"
        )
        return RunJudgement(Health.FAIL, " ".join(reason.split()))
    if silent is None:
        return RunJudgement(Health.PASS)
    if silent < silence_limit(snapshot.lease([state.holder])):
        return RunJudgement(Health.UNKNOWN)
    return RunJudgement(Health.FAIL, f"Its driver {state.holder} has given no sign of life for {duration(silent)}.")


def judge_lag(snapshot: Snapshot, report: LagReport | None, limits: LagLimits, problem: str = "") -> LagJudgement:
    """Judge how far the stream is behind.

    A stream none of whose queries reads Kafka is not behind: that is known once Spark has reported the progress of
    each.

    :param problem: why there is no report.
    """
    if report is None:
        return LagJudgement(Health.UNKNOWN, (problem,) if problem else ())
    holder = snapshot.state.holder
    if not report.queries and holder is not None and snapshot.has_reported(holder):
        return LagJudgement(Health.PASS)
    return limits.judge(report)
