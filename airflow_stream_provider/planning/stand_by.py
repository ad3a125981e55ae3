"""Bring a declared deployment up until it stands by."""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.lifecycle.errors import RehearsalRefused
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.planning.conditions import Pause, StandbyUp
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Append, Declare, Done, GiveUp, Step, Submit, Wait
from airflow_stream_provider.planning.waits import Ended, WaitOutcome

ASK_AGAIN_SECONDS = 10.0
# Well below begun.ADOPT_SECONDS, after which a run of the watch submits a deployment that has no driver: clocks differ.
FIRST_SECONDS = 10.0


def bring_up(snapshot: Snapshot, deployment: str, outcome: WaitOutcome | None, reason: str) -> Step:
    """Declare a new deployment of the release that the task asks for, then `stand_by`."""
    if deployment not in snapshot.state.deployments:
        return Declare(deployment, reason)
    return stand_by(snapshot, deployment, outcome)


def declare_again(snapshot: Snapshot, deployment: str, old: str, reason: str, *, instead_of: str = "") -> Append:
    """Declare a new deployment of a release that ran before, with the policy that it had.

    Both are copied from the record of the deployment `old`, with any fields that this version does not know.

    :param instead_of: deployment that is rolled back from: the watch leaves it alone then.
    """
    declared = snapshot.declared(old)
    fields = {"release": declared["release"], "policy": declared.get("policy", {}), "again": old}
    if instead_of:
        fields["instead_of"] = instead_of
    return Append(Kind.DECLARED, {"deployment": deployment, **fields, "reason": reason})


def nobody_else_submitted(snapshot: Snapshot, deployment: str, just_declared: bool) -> bool:
    """Return whether the caller may submit a deployment without asking the cluster whether somebody else has.

    :param just_declared: the caller has declared it itself since its last wait. Another run may adopt it later.
    """
    return just_declared and snapshot.at < snapshot.state.deployments[deployment].declared_at + FIRST_SECONDS


def stand_by(snapshot: Snapshot, deployment: str, outcome: WaitOutcome | None) -> Step:
    """Submit a declared deployment and wait until it has rehearsed; Done when it is a standby or holds.

    Gives up when the deployment has ended: a refused rehearsal, or a driver that never came up.
    """
    declared = snapshot.state.deployments[deployment]
    if declared.ended:
        return GiveUp(
            RehearsalRefused(
                f"Release {declared.release.version} ({deployment}) {declared.ended.value}: "
                f"{snapshot.why_ended(deployment) or 'no reason given'} {snapshot.holder_sentence}",
                next_step="Correct it and start a new run; clearing this task changes nothing.",
                deployment=deployment,
            ),
            log_of=snapshot.log_of_failed(deployment),
        )
    up = snapshot.candidate(deployment) or snapshot.holds(deployment)
    # The heartbeat of a driver that is up may be alone in knowing the submission: with it the proof of its death would
    # be lost. The plan records it, and submits nothing.
    if not declared.submission and (not up or snapshot.submission(deployment)):
        return Submit(deployment)
    if up:
        return Done(standby_result(snapshot, deployment))
    driver = snapshot.drivers.get(deployment)
    if (driver is not None and driver.state.reserved) or (
        outcome is not None and outcome.about(Ended.UNSENT, deployment)
    ):
        return Submit(deployment)
    if outcome is not None and outcome.about(Ended.GONE, deployment):
        reason = f"Its driver never came up: {outcome.reason}. Look at the driver's log on the cluster."
        return Append(Kind.FAILED, {"deployment": deployment, "reason": reason, "error": outcome.reason})
    mute = outcome is not None and outcome.about(Ended.EXPIRED, deployment)
    return Wait(StandbyUp(deployment), log_of=deployment if mute else "")


def ask_again(snapshot: Snapshot, deployment: str) -> Wait:
    """Wait ASK_AGAIN_SECONDS, then ask the cluster again whether the submission arrived."""
    return Wait(Pause(deployment, snapshot.at + ASK_AGAIN_SECONDS))


def standby_result(snapshot: Snapshot, deployment: str) -> dict[str, Any]:
    """Return the XCom of a task that brought up a standby."""
    incarnation = snapshot.candidate(deployment)
    return {
        **snapshot.holder_result(deployment),
        "incarnation": incarnation.id if incarnation else "",
        "rehearsal": dict(incarnation.rehearsal) if incarnation else {},
    }
