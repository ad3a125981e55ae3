"""Foresee the effect of a person's request to a stream. Pure.

Command line, form and the operators' logs all say this. Only whether a person's request makes sense is decided by it:
what is done is planned from the control log, step by step, as for any task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from airflow_stream_provider.lifecycle.state import Request, RequestStage, StreamPhase
from airflow_stream_provider.lifecycle.texts import duration
from airflow_stream_provider.planning.asked import NOTHING, Asked, author, next_start
from airflow_stream_provider.planning.begun import job_first
from airflow_stream_provider.planning.foresee_driver import (
    foresee_abort,
    foresee_adopt,
    foresee_fence,
    foresee_roll_back,
)
from airflow_stream_provider.planning.foresee_upgrade import (
    foresee_promote,
    foresee_redeploy,
    foresee_rewind,
    foresee_upgrade,
)
from airflow_stream_provider.planning.foreseen import Foreseen, Wanted
from airflow_stream_provider.planning.operation import FOR_GOOD, Operation
from airflow_stream_provider.planning.snapshot import Snapshot


def foresee(
    snapshot: Snapshot,
    operation: Operation,
    wanted: Wanted | None = None,
    *,
    confirmed_by: str = "",
    since: float | None = None,
    job: str = "",
) -> Foreseen:
    """Return what an operation will do to a stream, or why it is refused.

    :param snapshot: of the stream; for one that was never deployed, of an empty log.
    :param wanted: the release of the YAML, for what brings one up; the stored one, for a redeployment.
    :param confirmed_by: the person who made sure that the driver, or the job that is to be adopted, is gone.
    :param since: when the person asked, in seconds since 1970: who has come to hold later is neither fenced nor rolled
        back from, and what was declared later not called off. Default: now.
    :param job: the cluster's id of the job that is to be adopted; `snapshot.job` is what the cluster says of it.
    """
    asked = Asked(snapshot, operation, wanted or Wanted(), confirmed_by, since, job)
    if job and operation is not Operation.ADOPT:
        return asked.refused("Only a job that is adopted is named by its id.")
    if confirmed_by and operation not in (Operation.FENCE, Operation.ADOPT):
        return asked.refused("Only a fence goes by a person's word that a driver is gone: fence it first.")
    return _FORESEE[operation](asked)


def _stop(asked: Asked) -> Foreseen:
    snapshot, state = asked.snapshot, asked.snapshot.state
    live, last = snapshot.live_deployments(), _last_stop(snapshot)
    if state.phase is StreamPhase.EMPTY and not live:
        return asked.refused("No driver has ever held the stream, and none comes up: there is nothing to stop.")
    if state.phase is StreamPhase.STOPPED and not live and last is not None:
        return asked.done(f"It was stopped by {author(last)}, and no driver is left by the control log.")
    will = asked.first
    if state.holder is None and state.open_request is None:
        will.append("No driver holds it: the control log will say that none is to.")
    elif state.phase is not StreamPhase.STOPPING:
        seconds = snapshot.policy(snapshot.holding).boundary_seconds
        will.append(
            f"The holder is asked to stop at a batch boundary, within {duration(seconds)}. If that is missed, it goes "
            "on, and nothing has changed."
        )
    ended = ", ".join(each for each in (snapshot.holding, *live) if each)
    will.append(f"Every driver is ended, and waited for until the cluster confirms that it is gone: {ended or 'none'}.")
    job = job_first(state)
    if job:
        will.append(
            f"{job} No driver follows it then, and whether it is gone is not asked any more: if it is not, two "
            "jobs write one checkpoint once the stream is started."
        )
    will.append("The watch leaves the stream alone until somebody starts it.")
    clean = state.holder is not None and not asked.silent
    return asked.will(*will, reads_again=NOTHING if clean else next_start(snapshot))


def _retire(asked: Asked) -> Foreseen:
    snapshot, state = asked.snapshot, asked.snapshot.state
    last, stop = _last_stop(snapshot), _stop(asked)
    if stop.refused or (stop.done and last is not None and last.reason.startswith(FOR_GOOD)):
        return stop
    will = stop.will or ("It is stopped already. The history will say that this is for good.",)
    driver = state.last_driver
    places = {str(query.get("checkpoint") or "") for query in (driver.queries if driver else ())} - {""}
    owners = ", ".join(f"{place.rstrip('/')}.owner" for place in sorted(places))
    by_hand = (
        f"Left to be removed by hand after that: its YAML, {owners or 'NAME.owner beside each checkpoint'}, and its "
        "control log, if nobody needs the history."
    )
    again = stop.reads_again or next_start(snapshot)
    return replace(asked.will(*will, by_hand, reads_again=again), parts=(Operation.STOP,))


def _last_stop(snapshot: Snapshot) -> Request | None:
    requests = reversed(snapshot.state.requests.values())
    return next((r for r in requests if r.to is None and r.stage is RequestStage.DONE), None)


def _start(asked: Asked) -> Foreseen:
    snapshot, wanted = asked.snapshot, asked.wanted
    held = snapshot.state.holding_deployment
    if wanted.problem:
        return asked.refused(wanted.problem)
    if held is None:
        return _bring_up(asked)
    if held.release.version != wanted.version:
        return asked.refused(
            f"{snapshot.holder_sentence} The YAML asks for {wanted}. Upgrade the stream to it, or stop it first."
        )
    if asked.silent:
        return asked.refused(
            f"{snapshot.holder_sentence} The watch replaces it. Without a watch: fence it, then start the stream."
        )
    changed = wanted.hash and held.release.hash != wanted.hash
    but = " Its files or settings are not those of the YAML: that takes an upgrade." if changed else ""
    return asked.done(f"Release {wanted.version} runs already.{but}")


def _restart(asked: Asked) -> Foreseen:
    snapshot, wanted = asked.snapshot, asked.wanted
    held = snapshot.state.holding_deployment
    if wanted.problem:
        return asked.refused(wanted.problem)
    up = _bring_up(asked)
    if held is None or up.refused:
        return replace(up, parts=(Operation.START,) if up.parts else ())
    if held.release.version != wanted.version:
        return asked.refused(
            f"{snapshot.holder_sentence} The YAML asks for {wanted}, and that is an upgrade: use that, with the "
            "strategy `restart` where there is no room for two."
        )
    stop = _stop(asked)
    alone = "If this is cut off before it is started again, the watch tells people, and brings back what ran before."
    both = asked.will(*stop.will[:-1], alone, *up.will, reads_again=stop.reads_again)
    return replace(both, parts=(Operation.STOP, Operation.START))


def _bring_up(asked: Asked) -> Foreseen:
    snapshot, wanted, state = asked.snapshot, asked.wanted, asked.snapshot.state
    held = asked.held
    if asked.beside_a_job:
        return asked.refused(asked.beside_a_job)
    proven = {state.deployments[i.deployment].release.hash for i in state.held}
    if wanted.approval and wanted.hash not in proven:
        return asked.refused(
            f"The YAML's {wanted} has never held the stream, and it wants a person's approval for a new one "
            "(`upgrade.approval`). Upgrade the stream to it."
        )
    will = [] if state.holder else asked.first
    will.append(
        f"A driver of the YAML's {wanted} is started. It rehearses on a clone of the checkpoint, then it holds."
    )
    if held is not None and held.release != wanted.hash:
        will.append(f"That is not what {'holds' if state.holder else 'held last'}: {held}.")
    if state.phase in (StreamPhase.DOWN, StreamPhase.FAILED):
        will.append("Without this, the watch brings back the release that held last, unless its DAG is paused.")
    return asked.will(*will, reads_again=next_start(snapshot))


_FORESEE: Mapping[Operation, Callable[[Asked], Foreseen]] = {
    Operation.STOP: _stop,
    Operation.START: _start,
    Operation.RESTART: _restart,
    Operation.UPGRADE: foresee_upgrade,
    Operation.REDEPLOY: foresee_redeploy,
    Operation.REWIND: foresee_rewind,
    Operation.PROMOTE: foresee_promote,
    Operation.ROLL_BACK: foresee_roll_back,
    Operation.ABORT: foresee_abort,
    Operation.FENCE: foresee_fence,
    Operation.RETIRE: _retire,
    Operation.ADOPT: foresee_adopt,
}
