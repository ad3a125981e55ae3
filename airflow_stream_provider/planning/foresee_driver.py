"""Foretell what happens to one driver that a person adopts, fences, calls off or rolls back from. Pure."""

from __future__ import annotations

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.lifecycle.texts import duration
from airflow_stream_provider.planning.adopt import END_IT_YOURSELF, NOT_THAT_ONE, another_job, says, unknown_whose
from airflow_stream_provider.planning.asked import NO_CHANGE, NOTHING, Asked, after_fence, next_start, under_way
from airflow_stream_provider.planning.descent import family, origin
from airflow_stream_provider.planning.fence import BY_THE_CLUSTER, still_beats
from airflow_stream_provider.planning.foreseen import Foreseen, Wanted
from airflow_stream_provider.planning.roll_back import WHAT_HELPS, no_way_back
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stream_health import RESTING


def foresee_roll_back(asked: Asked) -> Foreseen:
    """Return what a roll-back from the release that holds, or that was lost, will do."""
    snapshot, state, held = asked.snapshot, asked.snapshot.state, asked.held
    request = state.open_request
    if held is None or state.phase in RESTING:
        return asked.refused(
            f"{snapshot.holder_sentence} Start it with the release that you want, upgrade to it, or redeploy a stored "
            "one."
        )
    late = _held_later(asked, held.driver)
    if late:
        return asked.done(late)
    # A deployment that the watch or a roll-back has started again has the release of the first one.
    bad = origin(state, held.deployment)
    again, previous = family(state, bad), snapshot.previous(bad)
    before = _held_before(snapshot, again)
    if before and snapshot.previous(origin(state, before)) in again:
        return asked.done(f"It is rolled back already, from {before}. To go further back, upgrade to what you want.")
    if request is not None and deployment_of(request.to or "") not in family(state, previous):
        return asked.refused(f"{under_way(request)} Ask again when that is over.")
    if previous not in state.deployments:
        return asked.refused(
            f"No release is known that held before {bad}. Upgrade to the one that you want, or redeploy a stored one."
        )
    closed = no_way_back(snapshot, bad)
    if closed:
        return asked.refused(f"{closed} {WHAT_HELPS}")
    old = state.deployments[previous].release
    name = Wanted(old.version, old.hash)
    will, warm = asked.first, snapshot.candidate(previous)
    if warm:
        will.append(f"{previous} stands by with {name}: it takes the stream over at a batch boundary.")
    else:
        will.append(
            f"No driver with {name} stands by: one is started from its stored files. It rehearses on a clone of the "
            "checkpoint as it is now, and takes the stream over; if it cannot read that, the holder goes on."
        )
    reads = next_start(snapshot)
    if state.holder is not None:
        will.append(f"{held.deployment} is killed and fenced if it does not release the stream in time.")
        if not asked.silent:
            reads = f"{NOTHING} If it has to be fenced: {after_fence(snapshot, held.driver)}"
    return asked.will(*will, reads_again=reads, deployment=bad, release="" if warm else old.hash)


def foresee_fence(asked: Asked) -> Foreseen:
    """Return what a fence of the holder, or of a driver that stopped inside a batch, will do."""
    snapshot, state = asked.snapshot, asked.snapshot.state
    driver = state.must_fence[0] if state.must_fence else state.holder
    if driver is None:
        return asked.done(f"{snapshot.holder_sentence} No driver stopped inside a batch: there is nothing to fence.")
    late = _held_later(asked, driver) if driver == state.holder else ""
    if late:
        return asked.done(late)
    lease = snapshot.policy(deployment_of(driver)).lease_seconds
    beat = snapshot.heartbeats.get(driver)
    age = snapshot.at - beat.at if beat is not None and beat.at else None
    beats = still_beats(snapshot, driver) if asked.confirmed_by else ""
    if beats:
        return asked.refused(f"{beats} {BY_THE_CLUSTER}")
    if asked.confirmed_by:
        said = (
            f"{driver} counts as dead by the word of {asked.confirmed_by}; the cluster is not asked. If it still runs, "
            "two drivers write to one checkpoint."
        )
        if age is not None and age < 0:
            said += (
                f" Its clock was {duration(-age)} ahead of the one here: its heartbeat does not tell when it was last "
                "alive."
            )
    else:
        said = (
            f"{driver} is killed. It counts as dead when the cluster confirms that it is gone, and its heartbeat has "
            f"stood still for {duration(lease)}."
        )
    after = (
        "Then nobody holds, and the watch brings back the release that held last, unless its DAG is paused. If the "
        "stream shall stay down, stop it after this."
    )
    will = (said,) if state.phase is StreamPhase.STOPPED else (said, after)
    return asked.will(*will, reads_again=after_fence(snapshot, driver), deployment=deployment_of(driver))


def foresee_abort(asked: Asked) -> Foreseen:
    """Return what calling off the newest release that has never held will do."""
    snapshot, state = asked.snapshot, asked.snapshot.state
    live = [name for name in snapshot.live_deployments() if not state.has_held(name)]
    since = asked.since
    fresh = [name for name in live if since is None or state.deployments[name].declared_at <= since]
    revives = [name for name in fresh if state.holder is None and state.deployments[name].declared.get("again")]
    if revives and fresh == revives:
        return asked.refused(
            f"{revives[-1]} runs again what held last, as nobody holds. Stop the stream, if it shall stay down."
        )
    if live and not fresh:
        return asked.done(
            f"{live[-1]} was declared since this was asked for, and is left alone. Ask anew if it is meant."
        )
    if not fresh:
        return asked.done(f"No new release comes up or stands by. {snapshot.holder_sentence}")
    name = next(each for each in reversed(fresh) if each not in revives)
    found = state.deployments[name]
    how = "stands by" if snapshot.candidate(name) else "comes up"
    will = []
    if state.open_request is not None:
        will.append(f"{under_way(state.open_request)} Its end is waited for; what holds after that is not called off.")
    will.append(f"{name} with {Wanted(found.release.version, found.release.hash)} {how}, and is ended.")
    will.append(
        f"It was brought up by {found.declared.by}. A run fails by that; one that waits for an approval, once that is "
        "given."
    )
    if state.job is not None:
        will.append("No driver runs it then, and people are told. If the old job is to run on, stop the stream.")
    elif state.holder is None:
        will.append("No driver holds the stream. An upgrade that has stopped it starts the release before it again.")
    reads = NO_CHANGE if state.holder is not None else next_start(snapshot)
    return asked.will(*will, reads_again=reads, deployment=name)


def _held_later(asked: Asked, driver: str) -> str:
    """Return why nothing is done when this driver has come to hold since the person asked; empty when it has not."""
    acquired = next((r for r in reversed(asked.snapshot.acquisitions()) if r["incarnation"] == driver), None)
    if asked.since is None or acquired is None or acquired.at <= asked.since:
        return ""
    return f"{driver} has come to hold since this was asked for, and is left alone. Ask anew if it is meant."


def _held_before(snapshot: Snapshot, these: frozenset[str]) -> str:
    """Return the deployment that held last before these; empty when none is known."""
    held = (deployment_of(record["incarnation"]) for record in reversed(snapshot.acquisitions()))
    return next((each for each in held if each not in these and each in snapshot.state.deployments), "")


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
