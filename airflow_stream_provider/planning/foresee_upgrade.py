"""Foresee an upgrade, a redeploy, a rewind, or the take-over of a standby. Pure."""

from __future__ import annotations

from dataclasses import replace

from airflow_stream_provider.lifecycle.due_rewind import due_rewind
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.rewind import WantedRewind, at
from airflow_stream_provider.lifecycle.texts import duration
from airflow_stream_provider.planning.asked import NOTHING, Asked, after_fence, next_start, under_way
from airflow_stream_provider.planning.begun import FOLLOW_FIRST, follows_a_job
from airflow_stream_provider.planning.foreseen import Foreseen, Wanted
from airflow_stream_provider.planning.judgement import broken, judge_rehearsal
from airflow_stream_provider.planning.operation import Operation


def foresee_upgrade(asked: Asked) -> Foreseen:
    """Return what an upgrade to the release of the YAML will do."""
    return _deploy(asked, "the YAML's")


def foresee_redeploy(asked: Asked) -> Foreseen:
    """Return what the deployment of a stored release will do."""
    found = _deploy(asked, "the stored")
    # A run of `NAME__upgrade` does it, too.
    return replace(found, parts=(Operation.UPGRADE,), release=asked.wanted.hash) if found.parts else found


def foresee_rewind(asked: Asked) -> Foreseen:
    """Return what will happen when the release that holds reads records again."""
    snapshot, found, held = asked.snapshot, asked.wanted.rewind, asked.snapshot.state.holding_deployment
    if asked.wanted.problem or found is None or found.problem:
        return asked.refused(asked.wanted.problem or (found.problem if found else "") or "No time was given.")
    if held is None or asked.silent or asked.wanted.hanging:
        return asked.refused(
            f"{snapshot.holder_sentence} {asked.wanted.hanging} Only a stream that runs is rewound: its queries have "
            "to stop at a batch boundary first. See that it runs; then ask again."
        )
    if found.wanted is None:
        return asked.done("Kafka has no record since then that a query has read; what it has deleted is not counted.")
    before = _asked_before(asked, found.wanted)
    if before is not None:
        return before
    deploys = _deploy(asked, "the same")
    if not deploys.parts:
        return deploys
    *comes_up, _, by_a_run = deploys.will
    will = [
        *comes_up,
        f"When it holds, and before its queries start, they go back to the first records since {at(found.wanted.to)}. "
        "Where they cannot, the new driver fails, nothing was read again, and the watch brings the release back. "
        "Should it be lost first, the next holder does it.",
        f"It is watched for {duration(asked.wanted.soak)} then, but not for its lag: what is read again is behind.",
        by_a_run,
    ]
    again = (
        f"{' '.join(found.lines)} That is what was committed when this was looked at; what is committed until the "
        "hand-over comes on top. A sink gets these records once more, in batches with new numbers: what it has of them "
        "already is there twice then, unless it tells by their contents."
    )
    beat = snapshot.holder_heartbeat
    once = (f"It was asked for before: {beat.rewind}",) if beat is not None and beat.rewind else ()
    again = " ".join((again, *found.near, *once))
    return replace(
        asked.will(*will, reads_again=again, release=held.release.hash),
        parts=(Operation.UPGRADE,),
        # By `held`, `check` knows whether it is still what somebody said yes to (`refuse_another_holder`).
        rewind={**found.wanted.to_json(), "held": held.id},
    )


def _asked_before(asked: Asked, wanted: WantedRewind) -> Foreseen | None:
    """Return why a rewind is not asked for where the driver that holds has one to carry out; None: it may be.

    The same one is done once. Another one waits until that driver has said what became of the first: were it lost
    before, one of the two would be forgotten.
    """
    snapshot, holder = asked.snapshot, asked.snapshot.state.holder or ""
    due, beat = due_rewind(snapshot.state, holder), snapshot.holder_heartbeat
    if due is None or (beat is not None and beat.left_undone):
        return None
    said = beat.rewind if beat is not None else ""
    if due.wanted.to == wanted.to and wanted.queries.keys() <= due.wanted.queries.keys():
        done = f"{due.mark} was to go back to there, and that is done once."
        return asked.done(" ".join(filter(None, (done, said, "Give another time to go back again."))))
    if said:
        return None
    return asked.refused(
        f"{holder} was to go back to {at(due.wanted.to)}, and has not said yet what became of that. Wait until it has "
        "(`airflow streams history`, and its log), or roll it back; then ask again."
    )


def foresee_promote(asked: Asked) -> Foreseen:
    """Return what will happen when the newest standby that has never held takes over now."""
    snapshot, state, request = asked.snapshot, asked.snapshot.state, asked.snapshot.state.open_request
    new = [name for name in snapshot.live_deployments() if not state.has_held(name)]
    warm = [name for name in new if snapshot.candidate(name)]
    if not warm:
        coming = f" {new[-1]} comes up, and has not rehearsed yet: wait for it." if new else ""
        return (asked.refused if new else asked.done)(
            f"No new release stands by.{coming} {snapshot.holder_sentence} What held before takes over by a roll-back."
        )
    name = warm[-1]
    found, driver = state.deployments[name], snapshot.candidate(name)
    assert driver is not None
    if found.adopts or asked.beside_a_job:
        return asked.refused(asked.beside_a_job or f"{follows_a_job(name)} {FOLLOW_FIRST}")
    if asked.since is not None and found.declared_at > asked.since:
        return asked.done(f"{name} was declared since this was asked for, and is left alone. Ask anew if it is meant.")
    if request is not None and deployment_of(request.to or "") != name:
        return asked.refused(f"{under_way(request)} Ask again when that is over.")
    if asked.wanted.approval:
        return asked.refused(
            f"{name} waits for a person's approval (`upgrade.approval`). Answer it in Airflow, or call it off."
        )
    lost = asked.lost(driver)
    if lost:
        return asked.refused(f"{lost} It cannot take over. Upgrade anew.")
    # As the upgrade has judged it; once the hand-over has begun, that is over.
    doubts = () if request is not None else judge_rehearsal(snapshot, driver, asked.wanted.max_seconds).reasons
    if doubts and not (broken(snapshot, lost=asked.silent) or asked.wanted.hanging):
        return asked.refused(
            f"{name} waits for a person's approval, because its rehearsal has not passed: {' '.join(doubts)} Answer it "
            "in Airflow, or call it off."
        )
    release = Wanted(found.release.version, found.release.hash)
    will = [*asked.first, *_not_waited_for(asked)]
    how = "at a batch boundary" if state.holder else "at once, as nobody holds"
    will.append(f"{name} stands by with {release}, and has rehearsed: it takes the stream over {how}.")
    if state.holder is not None and not asked.wanted.hanging:
        will.append(f"If {snapshot.holding} does not reach one in time, it goes on, and nothing has changed.")
    will.append(
        f"It was brought up by {found.declared.by}. Only that run, if it goes on, watches it and takes it back; else "
        "roll back by hand if it is no good."
    )
    return asked.will(*will, reads_again=_reads_again(asked), deployment=name)


def _deploy(asked: Asked, whose: str) -> Foreseen:
    snapshot, state, wanted = asked.snapshot, asked.snapshot.state, asked.wanted
    request = state.open_request
    if wanted.problem or asked.beside_a_job:
        return asked.refused(wanted.problem or asked.beside_a_job)
    if request is not None:
        return asked.refused(f"{under_way(request)} Ask again when that is over.")
    held = state.holding_deployment
    redeploys = held is not None and asked.operation is Operation.REDEPLOY and held.release.hash == wanted.hash
    if held is not None and (wanted.same or redeploys) and not asked.silent and not wanted.hanging:
        return asked.done(f"Release {wanted.version} ({wanted.hash[:12]}) runs already, just as it is asked for.")
    will = [*asked.first, *_not_waited_for(asked)]
    stops = wanted.restart and state.holder is not None and not wanted.hanging
    if stops:
        will.append("The holder is stopped at a batch boundary first: the strategy is `restart`.")
    others = snapshot.live_deployments()
    if others:
        will.append(f"Ended, to make room for it: {', '.join(others)}.")
    beside = " beside the one that holds" if state.holder is not None and not wanted.restart else ""
    over = "then it takes the stream over at a batch boundary" if beside else "then it holds"
    will.append(f"A driver of {whose} {wanted} is started{beside}. It rehearses on a clone of the checkpoint, {over}.")
    if wanted.approval:
        will.append("Between the two a person has to approve it.")
    back = "the stream is given back to what held before" if state.last_holder else "a person is told"
    will.append(f"It is watched for {duration(wanted.soak)} then; if it is no good, {back}.")
    will.append("A run of the stream's upgrade DAG does all this, also when this command is cut off.")
    return asked.will(*will, reads_again=_reads_again(asked))


def _not_waited_for(asked: Asked) -> list[str]:
    if not asked.wanted.hanging:
        return []
    return [f"{asked.wanted.hanging} It is not waited for: it is killed, and fenced once it is confirmed gone."]


def _reads_again(asked: Asked) -> str:
    snapshot, holder = asked.snapshot, asked.snapshot.state.holder
    if holder is None or asked.silent:
        return next_start(snapshot)
    return after_fence(snapshot, holder) if asked.wanted.hanging else NOTHING
