"""The rules of docs/architecture.md in other words than the product's: over the log as written, and over the truth."""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.lifecycle.errors import Damaged
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.reconcile import COME_UP_SECONDS
from tests.support.simulation.data import LISTING_SECONDS
from tests.support.simulation.invariants import Broken, expect
from tests.support.simulation.oracle_of_wishes import OracleOfWishes, rests
from tests.support.simulation.world import World

# Whoever writes to the control folder past the rules.
FORGER = "somebody"
# Who says that a driver is dead, and may be wrong.
PERSON = "on-call"
# The DAG of the runs that bring the stream back.
REVIVE = "streams__revive"
# The DAG of the runs that stop a stream to start it again.
RESTART = "orders__restart"
# Between two looks of the watch, with what holds up the second, and the process that acts upon it.
LATELY_SECONDS = 60.0
ENDS = (Kind.RELEASED, Kind.FAILED, Kind.FINISHED, Kind.FENCED)


class Oracle(OracleOfWishes):
    """Follows the log record by record; `look` after every step."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.state = StreamState()
        self.seen = 0
        self._counted = 0
        self.holder: str | None = None
        self.epoch = 0
        self.torn: set[str] = set()
        self.asked: dict[str, Record] = {}
        # By request: the standby's heartbeat when it answered.
        self.answered: dict[str, int] = {}
        self.released_for: dict[str, str] = {}
        self.over: set[str] = set()
        self.lost: set[str] = set()
        # The legal records.
        self.records: list[Record] = []
        self.kinds: dict[str, int] = {}
        self.last: str | None = None
        self.to_be_fenced: set[str] = set()
        # Deployments that read records again and have not held yet, and the first driver of the last one that has.
        self.rewinds: set[str] = set()
        self.rewinder: str | None = None

    def look(self) -> None:
        damaged, stored = self.world.damaged, getattr(self.world.store, "stored", {})
        while self.seen + 1 not in damaged and (data := self.world.store.read(self.seen + 1)) is not None:
            self.seen += 1
            record = Record.read(data, self.seen)
            before, self.state = self.state, fold([record], self.state)
            if record.by == FORGER or record.kind == Kind.UNREADABLE:
                found = (self.state.illegal_count, self.state.illegal[-1].seq if self.state.illegal else 0)
                expect(found == (before.illegal_count + 1, self.seen), "forgery-carried", record)
            else:
                expect(self.state.illegal == before.illegal, "legal", record)
                self.records.append(record)
                self._follow(record)
                self.look_at_the_wish(record, self.state, self.holder)
            expect((self.state.holder, self.state.epoch) == (self.holder, self.epoch), "legal", record)
            expect(set(self.state.must_fence) == self.torn, "legal", record)
        if len(stored) > self.seen:
            behind = [seq for seq in stored if seq > self.seen and seq not in damaged]
            expect(not behind, "whole-log", behind)
        if self.world.data is not None:
            self.world.data.holder = self.holder
        self._look_at_the_truth()

    def _look_at_the_truth(self) -> None:
        world = self.world
        if world.violation is not None:
            raise world.violation
        # What one writes that a person has taken for dead, until it reads that, is the person's fault.
        writing = [driver for driver in world.drivers.values() if driver.writing and not driver.excused]
        # Of one that is refused, what it writes arrives nowhere.
        writers = [driver.incarnation for driver in writing if not world.refuses(driver)]
        if len(writers) > 1:
            raise Broken("one-writer", writers)
        if world.old_job is not None and world.old_job.runs and writers:
            raise Broken("after-the-job", writers)
        if world.old_job is not None and world.old_job.ended_for:
            self._job_ends(world.old_job.ended_for)
            world.old_job.ended_for = ""
        # Even before anybody else starts: what writes is known to the log as the holder or as one to be fenced.
        if writers and writers[0] != self.holder and writers[0] not in self.torn:
            raise Broken("known-writer", f"{writers} write, {self.holder} holds")
        if len(world.submitted) != self._counted:
            self._counted = len(world.submitted)
            again = len(world.submitted) - len(set(world.submitted))
            # No cluster tells two submissions that are under way at once apart: `submit_once` kills the second.
            expect(again == world.overlapping_submits, "submit-once", world.submitted)

    def _follow(self, record: Record) -> None:
        self.kinds[record.kind] = self.kinds.get(record.kind, 0) + 1
        check = getattr(self, f"_{record.kind}", None)
        if check is not None:
            check(record)
        self._bound_listings(record)
        if record.kind in ENDS and record.get("incarnation") == self.holder and self.holder is not None:
            stops = [r for id, r in self.asked.items() if id not in self.over and r.get("to") is None]
            self._note_the_end(record)
            self.finished = record.seq if record.kind == Kind.FINISHED and not stops else 0
            self.holder, self.free_since = None, self.world.now
            self.over |= {id for id, r in self.asked.items() if r.get("to") is None}
        if record.kind in (Kind.FAILED, Kind.FENCED):
            self.lost.add(record.get("incarnation") or "nobody")
        if record.kind in (Kind.FAILED, Kind.RELEASED) and record.get("boundary") == "interrupted":
            self.torn.add(record["incarnation"])

    def _note_the_end(self, r: Record) -> None:
        release, committed = self.hashes[deployment_of(r["incarnation"])], self._has_committed(r)
        said = r.get("committed")
        if r.kind != Kind.FENCED:
            expect(said == committed or not self.world.data, "commits-told", f"{r['incarnation']} says {said}")
        if committed:
            self.sound.add(release)
        if r.kind in (Kind.FAILED, Kind.FENCED):
            self.in_vain[release] += 1
        if r.kind == Kind.FAILED:
            self.failed.add(release)
        if r.get("committed") is None:
            self.unknown.add(release)

    def _bound_listings(self, record: Record) -> None:
        if self.world.data is None:
            return
        if record.kind == Kind.ACQUIRED and record["request"] in self.released_for:
            if self.world.data.listing_seconds:  # else nobody was told what must be seen
                self.world.data.listing_seconds = float("inf")
        elif record.kind in ENDS and self.holder is not None and record.get("incarnation") == self.holder:
            told = record.kind != Kind.FENCED and record.get("ends")
            self.world.data.listing_seconds = LISTING_SECONDS if told else 0.0

    def beat(self, incarnation: str) -> Heartbeat:
        """The last heartbeat of a driver; an empty one when there is none that can be read."""
        data = self.world.store.heartbeat(incarnation)
        try:
            return Heartbeat() if data is None else Heartbeat.from_json(data, incarnation)
        except Damaged:
            return Heartbeat()

    def _declared(self, r: Record) -> None:
        deployment = r["deployment"]
        expect(deployment not in self.ended, "ended-stays", r)
        self.hashes[deployment] = r["release"]["hash"]
        self.families[deployment] = r["family"]
        if r.get("rewind") is not None:
            self.rewinds.add(deployment)
        self.is_declared_as_wished(r)

    def _wanted(self, r: Record) -> None:
        self.is_wished(r, self.holder)

    def _requested(self, r: Record) -> None:
        expect(r["request"] not in self.asked, "one-request", r)
        expect(set(self.asked) <= self.over, "one-request", r)
        assert self.wish is not None
        if r["to"] is None:
            expect(rests(self.wish) or self.wish.get("alone"), "as-wished", r)
        else:
            expect(self.wanted, "stop-stays", r)
            self._appointed(r)
        expect(r["wish"] == self.wish["wish"], "current-wish", r)
        if r.get("evidence") is not None:
            self._job_ends(deployment_of(r["to"]))
        self.asked[r["request"]] = r

    def _ending(self, r: Record) -> None:
        expect(self.holder is None, "one-holder", r)
        self._job_ends(r["deployment"])

    def _job_ends(self, deployment: str) -> None:
        if self.holder is None:
            self.follows = self.follows or deployment

    def _appointed(self, r: Record) -> None:
        to = deployment_of(r["to"])
        silent = self.world.now - self.world.drivers[r["to"]].beat_at
        if _by_watch(r) and self.holder is None:
            expect(silent < LATELY_SECONDS or not self.world.data, "appoints-the-living", f"{r['to']}, {silent:.0f} s")
        slow = self.world.now - self.free_since >= COME_UP_SECONDS / 2  # by the clock of another machine
        self.is_appointed_as_wished(r, to, may_be_any=self.holder is None and slow, free=self.holder is None)

    def _ready(self, r: Record) -> None:
        expect(r["request"] not in self.over, "open-request", r)
        expect(self.asked[r["request"]]["to"] == r["incarnation"], "only-the-appointed", r)
        self.answered[r["request"]] = self.beat(r["incarnation"]).counter

    def _released(self, r: Record) -> None:
        expect(r["incarnation"] == self.holder, "one-holder", r)
        if r["request"] is not None:
            expect(r["request"] not in self.over, "open-request", r)
            to = self.asked[r["request"]]["to"]
            expect(to is None or r["request"] in self.answered, "ready-first", r)
            expect(to not in self.lost, "not-to-the-lost", r)
            moved = to is None or self.beat(to).counter > self.answered[r["request"]] or to in self.world.torn_beats
            expect(moved, "moved-first", r)
            self.released_for[r["request"]] = r["incarnation"]

    def _acquired(self, r: Record) -> None:
        me, request = r["incarnation"], r["request"]
        expect(self.holder is None, "one-holder", r)
        expect(not self.torn, "fence-first", r)
        expect(r["epoch"] == self.epoch + 1, "next-epoch", r)
        expect(request not in self.over, "open-request", r)
        expect(request in self.answered, "ready-first", r)
        to = self.asked[request]["to"]
        expect(me in (to, self.released_for.get(request)), "only-the-appointed", r)
        expect(deployment_of(me) not in self.ended, "ended-stays", r)
        if me != to and to not in self.lost and deployment_of(to) not in self.ended:
            driver = self.world.drivers[me]
            waited = driver.clock - driver.queries.stopped_at
            expect(waited >= driver.policy.take_back_seconds or not self.world.data, "take-back-waits", waited)
        self.holder, self.epoch = me, self.epoch + 1
        self.held_from = r.seq if me == to else self.held_from
        self.last, self.follows = me, ""
        if deployment_of(me) in self.rewinds:
            self.rewinds.remove(deployment_of(me))
            self._owe(me)
        self.proven.add(self.hashes[deployment_of(me)])
        self.ran.add(self.families[deployment_of(me)])
        self.unapproved.discard(self.families[deployment_of(me)])  # what has held lawfully is not asked about again
        self.over.add(request)

    def _owe(self, first: str | None) -> None:
        self.rewinder = first
        if self.world.data is not None:
            self.world.data.owed = None if first is None else deployment_of(first)

    def _fenced(self, r: Record) -> None:
        driver = self.world.drivers[r["incarnation"]]
        # On a machine that the cluster had lost at that look, a standby may wait on for the log, or its machine may be
        # back since; it reads in the log that it has ended.
        waits = (driver.lost or _says(r, "driver") == "lost") and not driver.running
        self.torn.discard(r["incarnation"])
        if r.by == PERSON:
            driver.said_dead = True
            return
        refused = _says(r, "ledger") and self.world.refuses(driver)
        expect(refused or ((driver.over or waits) and not driver.writing), "confirmed-kill", r)
        silent = self.world.now - driver.beat_at
        # A machine that slept may wake after the ledger has refused its driver, and before the record.
        expect(refused or not self.world.data or silent >= driver.policy.lease_seconds, "silent-first", silent)
        expect(r["incarnation"] in self.to_be_fenced, "intent-first", r)

    def _fencing(self, r: Record) -> None:
        self.to_be_fenced.add(r["incarnation"])

    def _failed(self, r: Record) -> None:
        error = r.get("error", "")
        broken = r["reason"] == "The runtime itself failed" or error.startswith("RuleBroken")
        expect(not broken, "no-surprise", error)
        if r.get("incarnation") == self.rewinder:
            self._owe(None)  # it has told why
        live = [i for i in self.state.of_deployment(r["deployment"]) if not i.state.terminal]
        if r.get("incarnation") == self.holder or not live:
            self.refused[self.families[r["deployment"]]] += 1
            self.ended.add(r["deployment"])

    def _has_committed(self, r: Record) -> bool:
        """Whether a holder has committed a batch, in truth, that who says how it ended must know of.

        It knows all by its checkpoint; of one that is fenced, only its last heartbeat tells.
        """
        data, driver, until = self.world.data, self.world.drivers[r["incarnation"]], float("inf")
        if r.kind == Kind.FENCED:
            unread = driver.incarnation in self.world.torn_beats or r.by == PERSON
            until = 0.0 if unread else driver.beat_at - driver.policy.lease_seconds
        mine = (b.committed_at for b in (data.batches if data else ()) if b.runs and b.runs[-1].driver is driver)
        return any(at is not None and at < until for at in mine)

    def _finished(self, r: Record) -> None:
        self.ended.add(deployment_of(r["incarnation"]))

    def _aborted(self, r: Record) -> None:
        expect(r["request"] not in self.over, "open-request", r)
        expect(r["request"] not in self.released_for or self._nobody_left(r["request"]), "open-request", r)
        self.over.add(r["request"])

    def _nobody_left(self, request: str) -> bool:
        """Whether neither the asked nor the releaser can still acquire."""
        gone = (self.asked[request]["to"], self.released_for[request])
        return all(name in self.lost | self.torn or deployment_of(name) in self.ended for name in gone)

    def _retired(self, r: Record) -> None:
        expect(self.holder is None or deployment_of(self.holder) != r["deployment"], "one-holder", r)
        self.ended.add(r["deployment"])


def _says(record: Record, name: str) -> Any:
    """What the evidence of a fence says of this."""
    evidence = record.get("evidence")
    return evidence.get(name) if isinstance(evidence, dict) else None


def _by_watch(record: Record) -> bool:
    return record.by.startswith(f"airflow:{REVIVE}/")
