"""Foresee the adoption of a job that runs without a stream, or its refusal. Pure."""

from __future__ import annotations

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.planning.adopt import END_IT_YOURSELF, NOT_THAT_ONE, another_job, says, unknown_whose
from airflow_stream_provider.planning.asked import Asked, under_way
from airflow_stream_provider.planning.foreseen import Foreseen

AGAIN = (
    "the batch of the old job that is cut off, if its end comes inside one, as a whole and with the same records. What "
    "it has written already is there twice then, unless the sink skips batches that it has seen."
)
_RESTARTED = (
    "What starts it again (systemd, cron, a supervisor, an operator of Kubernetes) has to be switched off before: two "
    "jobs on one checkpoint damage it."
)


def foresee_adopt(asked: Asked) -> Foreseen:
    """Return what adopting a job will do, or why it is refused."""
    snapshot, state, wanted = asked.snapshot, asked.snapshot.state, asked.wanted
    if wanted.problem:
        return asked.refused(wanted.problem)
    begun = state.job is not None and state.open_request is None
    if not begun and state.phase not in (StreamPhase.EMPTY, StreamPhase.STOPPED):
        if state.open_request is not None and snapshot.holding == "":
            return asked.refused(f"{under_way(state.open_request)} Ask again when that is over.")
        return asked.refused(
            f"{snapshot.holder_sentence} Its checkpoints are managed already: there is nothing to adopt. Upgrade the "
            "stream, or see with `airflow streams status` how it runs."
        )
    live, follows = snapshot.live_deployments(), state.follower
    if live and not follows:
        return asked.refused(f"{live[-1]} comes up or stands by already. Call it off first (`abort`).")
    if wanted.approval:
        return asked.refused(
            f"The YAML's {wanted} needs a person's approval (`upgrade.approval`), and an adoption is no upgrade. Leave "
            "that out until the job is adopted."
        )
    if asked.job and asked.confirmed_by:
        return asked.refused(
            f"Either the cluster ends {asked.job}, or {asked.confirmed_by} has seen that it is gone: give one of both."
        )
    lost = asked.lost(snapshot.candidate(follows)) if follows else ""
    if lost:
        return asked.refused(f"{lost} It cannot follow the job. Call it off (`abort`), then adopt the job again.")
    ended = state.job is not None and state.job.id == asked.job
    refused = _refused_job(asked, begun=bool(follows) or ended) if asked.job else ""
    if refused:
        return asked.refused(refused)
    return asked.will(*_will(asked, follows), reads_again=AGAIN, deployment=follows)


def _refused_job(asked: Asked, *, begun: bool) -> str:
    """Return why the job that is named cannot be adopted; empty: it can."""
    found, job = asked.snapshot.job, asked.job
    if found is None:
        return f"The stream's cluster cannot end {job}, nor say that it is gone. Leave it out: you are asked to end it."
    other = another_job(asked.snapshot.state, job)
    if other:
        return f"{other} {NOT_THAT_ONE}"
    if found.managed:
        return f"{found.about} is run by a stream of this provider. Stop that stream instead (docs/control.md)."
    if found.managed is None and not found.gone:
        return f"{unknown_whose(found)} {END_IT_YOURSELF}"
    if found.state is DriverState.LOST:
        return f"The cluster does not know {job}, or has lost it. A job that is not known is not gone: look for its id."
    if found.state.terminal and not begun:
        return (
            f"{found.about} has ended already ({found.state.value}). If it was started again since, give the id of "
            "that; if nothing runs, start the stream."
        )
    return ""


def _will(asked: Asked, follows: str) -> list[str]:
    snapshot, found = asked.snapshot, asked.snapshot.job
    if follows and snapshot.candidate(follows):
        will = [f"{follows} stands by already. {says(snapshot, follows)}".strip()]
    else:
        will = [
            f"A driver of the YAML's {asked.wanted} is started beside the old job. It rehearses on a clone of the "
            "checkpoints that the job writes now; if that fails, nothing was touched."
        ]
    if found is not None:
        will.append(f"Then {found.about} is ended by the cluster, which has to confirm that it is gone. {_RESTARTED}")
    elif asked.confirmed_by:
        will.append(
            f"The old job counts as gone by the word of {asked.confirmed_by}; the cluster is not asked. If it still "
            "runs, two jobs write to one checkpoint."
        )
    else:
        will.append(f"Then you are asked to end the old job, and to say by your name that it is gone. {_RESTARTED}")
    will.append(
        "Once the logs of the checkpoints stand still, too (5 s; up to a minute after long batches), the driver takes "
        "over and goes on after the last committed batch. If they move on, somebody else writes them: nothing takes "
        "over."
    )
    return will
