"""Compare a standby's rehearsal with the holder's batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from airflow_stream_provider.lifecycle.errors import RehearsalRefused
from airflow_stream_provider.operators.base import StreamOperator

if TYPE_CHECKING:
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import Step, Wait
    from airflow_stream_provider.planning.task_identity import TaskIdentity
    from airflow_stream_provider.planning.wait_outcome import WaitOutcome


class JudgeRehearsalOperator(StreamOperator):
    """Compare what a standby rehearsed with what the holder does, and doubt one that may not keep up.

    Spark's own refusals end the standby before this. The verdict is `inconclusive`, and a person is asked, where a
    query took longer than the stream's `lag.max_seconds` for each batch of live data, where it is more than twice as
    slow as the holder without much to spare, where the rehearsal's time was over before its batches had run, and where
    rows or state cannot be compared. It refuses none: no number tells a slow release from a busy machine. Without a
    holder there is nothing to compare with, and nothing to wait for.

    XCom: `verdict` (pass, inconclusive), `reasons` for it, `queries` (by name: `verdict`, `sentence`, `slower` and the
    numbers of both sides, `new` and `old`), and `notes`.
    """

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        """Return Done with the comparison; the same again after the deployment has taken over.

        In doubt it waits until it is known whether the holder is alive.
        """
        from airflow_stream_provider.planning.comparison import Compared
        from airflow_stream_provider.planning.judgement import judge_rehearsal
        from airflow_stream_provider.planning.steps import Done, GiveUp, Wait

        standby = next(iter(reversed(snapshot.state.of_deployment(self.deployment))), None)
        if standby is None:
            return GiveUp(
                RehearsalRefused(
                    f"{self.deployment} has not been rehearsed.", next_step="Submit it first, in a new run."
                )
            )
        judged = judge_rehearsal(snapshot, standby, self.stream.lag.max_seconds)
        for line in judged.table():
            self.log.info("%s", line)
        notes = [*standby.rehearsal.get("notes", []), *_versions(snapshot, standby.id)]
        result = {"deployment": self.deployment, **judged.to_json(), "notes": notes}
        if not judged.reasons:
            return Done(result)
        broken = self._broken(snapshot, outcome)
        if isinstance(broken, Wait):
            return broken
        if broken:
            notes.append(f"{broken} So this does not hold the upgrade up: {' '.join(judged.reasons)}")
            self.log.warning("%s", notes[-1])
            return Done({**result, "verdict": Compared.PASS.value, "reasons": []})
        return Done(result)

    def _broken(self, snapshot: Snapshot, outcome: WaitOutcome | None) -> str | Wait:
        """Return why a release that may be slower is better than what runs, as a sentence; empty when it is not.

        A sign of life of the holder is waited for first.
        """
        from airflow_stream_provider.hooks.holder_hangs import holder_hangs
        from airflow_stream_provider.planning.judgement import broken
        from airflow_stream_provider.planning.signs_of_life import SignsOfLife
        from airflow_stream_provider.planning.steps import Wait

        holder, alive = snapshot.state.holder, SignsOfLife.found(outcome, snapshot)
        if holder is None or snapshot.state.must_fence:
            return broken(snapshot, lost=False)
        if holder not in alive:
            return Wait(SignsOfLife({holder: snapshot.counter(holder)}, snapshot.lease([holder])))
        return broken(snapshot, lost=not alive[holder]) or holder_hangs(self.hook, self.stream, snapshot)


def _versions(snapshot: Snapshot, standby: str) -> list[str]:
    """Return a note where both sides run on different versions of Spark."""
    new, old = snapshot.heartbeats.get(standby), snapshot.holder_heartbeat
    if not new or not old or not new.spark_version or not old.spark_version or new.spark_version == old.spark_version:
        return []
    return [f"The new release runs on Spark {new.spark_version}, and the one that holds on {old.spark_version}."]
