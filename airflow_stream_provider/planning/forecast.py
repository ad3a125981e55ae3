"""The forecast of an operation: its wish is stated on a copy of the stream, and the step loop runs forward there. Pure.

So a look ahead and what is then done go by one decision, and by the same refusals. Command line, form and page all
say this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_stream_provider.lifecycle.due_rewind import due_rewind
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.rewind import WantedRewind, at
from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.lifecycle.texts import duration
from airflow_stream_provider.planning import verbs
from airflow_stream_provider.planning.asked import Ahead, Asked
from airflow_stream_provider.planning.choice import version_of
from airflow_stream_provider.planning.course import Course
from airflow_stream_provider.planning.fence import BY_THE_CLUSTER, still_beats
from airflow_stream_provider.planning.foreseen import Foreseen, Held
from airflow_stream_provider.planning.job import job_first
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.steps import GiveUp, Skip
from airflow_stream_provider.planning.stream_health import silence_limit
from airflow_stream_provider.planning.telling import NO_CHANGE, NOTHING, after_fence, kept, next_start, tell

_NAMED = {Operation.REDEPLOY: "the stored", Operation.REWIND: "the same"}
_BY_RUN = (Operation.UPGRADE, Operation.REDEPLOY, Operation.REWIND)


def forecast(asked: Asked) -> Foreseen:
    """Return what an operation will do to a stream, or why it is refused."""
    return foretell(asked)[0]


def foretell(asked: Asked) -> tuple[Foreseen, Ahead | None]:
    """Return the forecast, with the course of events that it tells; None where it needs none."""
    found = _Forecast(asked)
    return found.foreseen(), found.ahead


class _Forecast:
    def __init__(self, asked: Asked) -> None:
        self.asked, self.snapshot, self.operation, self.wanted = asked, asked.snapshot, asked.operation, asked.wanted
        self.ahead: Ahead | None = None

    def foreseen(self) -> Foreseen:
        if self.asked.job and self.operation is not Operation.ADOPT:
            return self.refused("Only a job that is adopted is named by its id.")
        if self.asked.confirmed_by and self.operation not in (Operation.FENCE, Operation.ADOPT):
            return self.refused("Only a fence goes by a person's word that a driver is gone: fence it first.")
        if self.wanted.problem:
            return self.refused(self.wanted.problem)
        if self.operation is Operation.FENCE:
            return self.of_fence()
        late = self._later()
        already = self.before_a_run() if self.operation in _BY_RUN else self.done(late) if late else None
        return already or self.of_wishes()

    def refused(self, why: str) -> Foreseen:
        return replace(self._now, refused=why)

    def done(self, why: str) -> Foreseen:
        return replace(self._now, done=why)

    @property
    def _now(self) -> Foreseen:
        state = self.snapshot.state
        last = state.last_deployment
        driver = state.last_holder
        held = None if last is None or not driver else Held(driver, last.id, last.release.version, last.release.hash)
        return Foreseen(self.snapshot.stream, self.operation, state.phase.value, held, state.holder is not None)

    @property
    def _silent(self) -> bool:
        age = self.snapshot.silent_seconds
        return age is not None and age > silence_limit(self.snapshot.policy(self.snapshot.holding).lease_seconds)

    def _later(self) -> str:
        """Return why what this is about is left alone: it has come to hold, or was asked for, since this was."""
        state = self.snapshot.state
        wish = state.wish if self.operation is Operation.ROLL_BACK else None
        if self.operation in (Operation.PROMOTE, Operation.ABORT):
            wish = state.wishes.get(verbs.newest_that_never_held(state))
        if wish is None or verbs.asked_at(state, wish) <= self.asked.since:
            return ""
        what = f"Release {version_of(state, wish.family)}" if wish.family else "A stop"
        return f"{what} was asked for since this was, by {wish.by}, and is left alone. Ask anew if it is meant."

    def _held_later(self, driver: str) -> str:
        acquired = next((r for r in reversed(self.snapshot.acquisitions()) if r["incarnation"] == driver), None)
        if acquired is None or acquired.at <= self.asked.since:
            return ""
        return f"{driver} has come to hold since this was asked for, and is left alone. Ask anew if it is meant."

    def of_wishes(self) -> Foreseen:
        """Tell what comes of the wishes, or why there are none."""
        self.ahead = self.asked.run_forward()
        course, end = self.ahead
        if isinstance(end, GiveUp):
            return self.refused(str(end.error))
        if isinstance(end, Skip) and not course.changes:
            return self.done(end.reason)
        return self._will(course, known=end is not None)

    # -- what is said --------------------------------------------------------------------------------------------------

    def _will(self, course: Course, *, known: bool) -> Foreseen:
        records, state = course.records, self.snapshot.state
        stored = next((r["release"]["hash"] for r in records if r.kind == Kind.DECLARED and r.get("again")), "")
        if self.operation is Operation.REDEPLOY:
            stored = self.wanted.hash
        stops = self.operation in (Operation.STOP, Operation.RETIRE)
        idle = stops and state.holder is None and state.open_request is None
        first = ["No driver holds it: the control log says then that none is to."] if idle else []
        will = tell(course, _NAMED.get(self.operation, "the YAML's") if self.operation.brings_up else "", self.wanted)
        will = will or [f"The control log says then that this is meant. {self.snapshot.holder_sentence}"]
        last = self._last(records) if known else ["How that ends cannot be told."]
        return self._that(
            [*first, *will, *last],
            reads_again=self._reads_again(records),
            deployment=self._deployment,
            release=stored,
        )

    def _that(self, will: Sequence[str], *, reads_again: str, deployment: str = "", release: str = "") -> Foreseen:
        part = Operation.UPGRADE if self.operation in _BY_RUN else self.operation
        return replace(
            self._now,
            will=tuple(will),
            reads_again=" ".join(filter(None, (reads_again, kept(self.snapshot)))),
            parts=(part,),
            deployment=deployment,
            release=release,
        )

    @property
    def _deployment(self) -> str:
        """The deployment that this is about."""
        state, snapshot = self.snapshot.state, self.snapshot
        if self.operation is Operation.ROLL_BACK:
            wishes = (r for r in self.ahead.course.records if r.kind == Kind.WANTED) if self.ahead else ()
            back = state.family(next((str(r["family"]) for r in wishes), ""))
            return back[-1].id if back else ""
        if self.operation is Operation.ADOPT:
            return state.follower
        if self.operation not in (Operation.ABORT, Operation.PROMOTE):
            return ""
        live = [each.id for each in state.family(verbs.newest_that_never_held(state)) if not each.ended]
        ready = [each for each in live if snapshot.candidate(each)]
        return (ready or live or [""])[-1]

    def _reads_again(self, records: Sequence[Record]) -> str:
        before, state = self.snapshot, self.snapshot.state
        if self.operation is Operation.ADOPT:
            return _OF_THE_JOB
        fenced = [r["incarnation"] for r in records if r.kind == Kind.FENCED and state.may_write(r["incarnation"])]
        if fenced:
            return after_fence(before, fenced[0])
        if state.holder is None:
            return next_start(before)
        if not any(r.kind == Kind.RELEASED for r in records):
            return NO_CHANGE
        back = self.operation is Operation.ROLL_BACK
        return f"{NOTHING} If it has to be fenced: {after_fence(before, state.holder)}" if back else NOTHING

    def _last(self, records: Sequence[Record]) -> list[str]:
        """Return what a person has to know of an operation besides what happens."""
        state, deployment = self.snapshot.state, self._deployment
        by = f"It was brought up by {self.snapshot.declared(deployment).by}." if deployment else ""
        match self.operation:
            case Operation.STOP | Operation.RETIRE:
                return self._of_a_stop()
            case Operation.START | Operation.RESTART:
                return self._of_a_start(records)
            case Operation.UPGRADE | Operation.REDEPLOY:
                back = "the stream is given back to what held before" if state.last_holder else "a person is told"
                return [f"It is watched for {duration(self.wanted.soak)} then; if it is no good, {back}.", _BY_ITSELF]
            case Operation.REWIND:
                return self._goes_back()
            case Operation.PROMOTE if by:
                only = "Only that run, if it goes on, watches it and takes it back"
                return [f"{by} {only}; else roll back by hand if it is no good."]
            case Operation.ABORT:
                run = [f"{by} A run fails by that, also one that waits for an approval."] if by else []
                job = "No driver follows the old job then. If that is to run on, stop the stream."
                return [*run, *([job] if state.job is not None else ())]
        return []

    def _of_a_stop(self) -> list[str]:
        job, state = job_first(self.snapshot.state), self.snapshot.state
        said = []
        if job:
            said.append(
                f"{job} No driver follows it then, and whether it is gone is not asked any more: if it is not, two "
                "jobs write one checkpoint once the stream is started."
            )
        said.append("The watch leaves the stream alone until somebody starts it.")
        if self.operation is Operation.STOP:
            return said
        driver = state.last_driver
        places = {str(query.get("checkpoint") or "") for query in (driver.queries if driver else ())} - {""}
        owners = ", ".join(f"{place.rstrip('/')}.owner" for place in sorted(places))
        return [
            *said,
            f"Left to be removed by hand after that: its YAML, {owners or 'NAME.owner beside each checkpoint'}, and "
            "its control log, if nobody needs the history.",
        ]

    def _of_a_start(self, records: Sequence[Record]) -> list[str]:
        held, state, said = self._now.held, self.snapshot.state, []
        brought = [r["release"]["hash"] for r in records if r.kind == Kind.DECLARED]
        if held is not None and brought and brought[-1] != held.release:
            said.append(f"That is not what {'holds' if state.holder else 'held last'}: {held}.")
        if state.holder is not None:
            said.append("If this is cut off, the watch goes on with it, unless its DAG is paused.")
        elif state.phase in (StreamPhase.DOWN, StreamPhase.FAILED):
            said.append("Without this, the watch brings back what is to hold, unless its DAG is paused.")
        return said

    # -- a run of NAME__upgrade ----------------------------------------------------------------------------------------

    def before_a_run(self) -> Foreseen | None:
        """Return why no run of NAME__upgrade is started for it, or what a rewind does; None: an upgrade goes on."""
        wanted, held = self.wanted, self.snapshot.state.holding_deployment
        if self.operation is Operation.REWIND:
            return self._of_a_rewind()
        redeploys = self.operation is Operation.REDEPLOY and held is not None and held.release.hash == wanted.hash
        if held is None or not (wanted.same or redeploys) or self._silent or wanted.hanging:
            return None
        return self.done(f"Release {wanted.version} ({wanted.hash[:12]}) runs already, just as it is asked for.")

    def _of_a_rewind(self) -> Foreseen:
        snapshot, found, held = self.snapshot, self.wanted.rewind, self.snapshot.state.holding_deployment
        if found is None or found.problem:
            return self.refused((found.problem if found else "") or "No time was given.")
        if held is None or self._silent or self.wanted.hanging:
            return self.refused(
                f"{snapshot.holder_sentence} {self.wanted.hanging} Only a stream that runs is rewound: its queries "
                "have to stop at a batch boundary first. See that it runs; then ask again."
            )
        if found.wanted is None:
            return self.done(
                "Kafka has no record since then that a query has read; what it has deleted is not counted."
            )
        before, deploys = self._asked_before(found.wanted), self.of_wishes()
        if before is not None or not deploys.parts:
            return before or deploys
        again = (
            f"{' '.join(found.lines)} That is what was committed when this was looked at; what is committed until the "
            "hand-over comes on top. A sink gets these records once more, in batches with new numbers: what it has of "
            "them already is there twice then, unless it tells by their contents."
        )
        beat = snapshot.holder_heartbeat
        once = (f"It was asked for before: {beat.rewind}",) if beat is not None and beat.rewind else ()
        return replace(
            self._that(deploys.will, reads_again=" ".join((again, *found.near, *once)), release=held.release.hash),
            # By `held`, `check` knows whether it is still what somebody said yes to (`refuse_another_holder`).
            rewind={**found.wanted.to_json(), "held": held.id},
        )

    def _goes_back(self) -> list[str]:
        found = self.wanted.rewind
        since = at(found.wanted.to) if found is not None and found.wanted is not None else ""
        return [
            f"When it holds, and before its queries start, they go back to the first records since {since}. Where they "
            "cannot, the new driver fails, nothing was read again, and the watch brings the release back. Should it "
            "be lost first, the next holder does it.",
            f"It is watched for {duration(self.wanted.soak)} then, but not for its lag: what is read again is behind.",
            _BY_ITSELF,
        ]

    def _asked_before(self, wanted: WantedRewind) -> Foreseen | None:
        """Return why a rewind is not asked for where the driver that holds has one to carry out; None: it may be.

        The same one is done once. Another one waits until that driver has said what became of the first: were it lost
        before, one of the two would be forgotten.
        """
        snapshot, holder = self.snapshot, self.snapshot.state.holder or ""
        due, beat = due_rewind(snapshot.state, holder), snapshot.holder_heartbeat
        if due is None or (beat is not None and beat.left_undone):
            return None
        said = beat.rewind if beat is not None else ""
        if due.wanted.to == wanted.to and wanted.queries.keys() <= due.wanted.queries.keys():
            done = f"{due.mark} was to go back to there, and that is done once."
            return self.done(" ".join(filter(None, (done, said, "Give another time to go back again."))))
        if said:
            return None
        return self.refused(
            f"{holder} was to go back to {at(due.wanted.to)}, and has not said yet what became of that. Wait until it "
            "has (`airflow streams history`, and its log), or roll it back; then ask again."
        )

    # -- a fence, which is no wish -------------------------------------------------------------------------------------

    def of_fence(self) -> Foreseen:
        """Return what a fence of the holder, or of a driver that stopped inside a batch, does."""
        snapshot, state = self.snapshot, self.snapshot.state
        driver = state.must_fence[0] if state.must_fence else state.holder
        if driver is None:
            return self.done(f"{snapshot.holder_sentence} No driver stopped inside a batch: there is nothing to fence.")
        late = self._held_later(driver) if driver == state.holder else ""
        beats = still_beats(snapshot, driver) if self.asked.confirmed_by else ""
        if late or beats:
            return self.done(late) if late else self.refused(f"{beats} {BY_THE_CLUSTER}")
        lease = snapshot.policy(deployment_of(driver)).lease_seconds
        will = [
            f"{driver} is killed. It counts as dead when the cluster confirms that it is gone, and its heartbeat has "
            f"stood still for {duration(lease)}."
        ]
        if self.asked.confirmed_by:
            will = [
                f"{driver} counts as dead by the word of {self.asked.confirmed_by}; the cluster is not asked. If it "
                "still runs, two drivers write to one checkpoint."
            ]
            beat = snapshot.heartbeats.get(driver)
            if beat is not None and beat.at > snapshot.at:
                will.append(
                    f"Its clock was {duration(beat.at - snapshot.at)} ahead of the one here: its heartbeat does not "
                    "tell when it was last alive."
                )
        if state.wish is None or not state.wish.goal.rest:
            will.append(
                "Then nobody holds, and the watch brings back what is to hold, unless its DAG is paused. If the stream "
                "shall stay down, stop it after this."
            )
        return self._that(will, reads_again=after_fence(snapshot, driver), deployment=deployment_of(driver))


_BY_ITSELF = "A run of the stream's upgrade DAG does all this, also when this command is cut off."
_OF_THE_JOB = (
    "the batch of the old job that is cut off, if its end comes inside one, as a whole and with the same records. What "
    "it has written already is there twice then, unless the sink skips batches that it has seen."
)
