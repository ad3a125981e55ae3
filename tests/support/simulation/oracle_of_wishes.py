"""What is wished for by the log, in other words than the product's, and what may be done for it."""

from __future__ import annotations

from collections import Counter

from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stream_health import judge_run
from tests.support.simulation.invariants import expect
from tests.support.simulation.world import World

# The tasks that call something off, or roll back.
_START_NOTHING = ("/abort", "/roll_back")
# After so many holders that failed or were fenced without a commit, their release is given up.
SEVERAL = 3


class OracleOfWishes:
    """Which wish counts, and which releases may run for it."""

    def __init__(self, world: World) -> None:
        self.world = world
        # The wish that governs who holds, and the one for a standby; and the family that was to hold before, by wish.
        self.wish: Record | None = None
        self.candidate: Record | None = None
        self.before: dict[str, str] = {}
        # Families that a person is to approve, and those of which the last wish has nobody's approval.
        self.asks: set[str] = set()
        self.unapproved: set[str] = set()
        # Families that follow a job without a stream, and the deployment for which it was ended, until somebody holds.
        self.adopting: set[str] = set()
        self.follows = ""
        # Families of which a driver has held.
        self.ran: set[str] = set()
        # Number of the record with which the script has ended by itself.
        self.finished = 0
        # By deployment: the hash of its release, and the family of wishes that it serves.
        self.hashes: dict[str, str] = {}
        self.families: dict[str, str] = {}
        # Deployments that have ended.
        self.ended: set[str] = set()
        # By family: how often what serves it has failed before it held.
        self.refused: Counter[str] = Counter()
        self.free_since = 0.0
        self.proven: set[str] = set()
        # Releases of which a holder has committed a batch, so that somebody can know it.
        self.sound: set[str] = set()
        # Those of which a holder has failed, how many of theirs have failed or were fenced, and those with a holder of
        # which nobody can know whether it had committed.
        self.failed: set[str] = set()
        self.in_vain: Counter[str] = Counter()
        self.unknown: set[str] = set()
        # Families that are to read records again, and the last `acquired` of whoever was asked to.
        self.reads_again: set[str] = set()
        self.held_from = 0

    def look_at_the_wish(self, record: Record, state: StreamState, holder: str | None) -> None:
        """One wish governs, by the log as by the product; what is to run and does not is never called well."""
        for found, said in ((state.wish, self.wish), (state.candidate, self.candidate)):
            expect((found and found.id) == (said and said["wish"]), "one-wish", record)
        before = self.before[self.wish["wish"]] if self.wish is not None else ""
        expect((state.wish.before if state.wish else "") == before, "way-back", f"{state.wish} instead of {before}")
        counts = {family_of(wish) for wish in (self.wish, self.candidate) if wish is not None}
        late = [
            w.id for w in state.wishes.values() if not w.goal.rest and state.is_current(w) and w.family not in counts
        ]
        expect(not late, "one-wish", late)
        down = self.wanted and holder is None and not self._job_untouched
        health = judge_run(Snapshot("orders", self.world.now, state), None).health if down else Health.FAIL
        expect(health is not Health.PASS, "told", record)

    @property
    def _job_untouched(self) -> bool:
        """Whether a driver is to follow a job that runs without a stream, and nobody has begun to end that."""
        wish = self.wish
        if wish is None or self.follows or wish.get("confirmed_by"):
            return False
        live = {family for name, family in self.families.items() if name not in self.ended}
        return family_of(wish) in live & self.adopting - self.ran

    @property
    def wanted(self) -> bool:
        """Whether a driver is to hold: somebody wishes that, and the script has not ended by itself since.

        That the script of another release has ended does not count.
        """
        wish = self.wish
        return wish is not None and not rests(wish) and (wish.seq > self.finished or family_of(wish) not in self.ran)

    @property
    def to_hold(self) -> tuple[str, ...]:
        """The family that is to hold, and the one that may in its place."""
        if self.wish is None or rests(self.wish):
            return ()
        return (family_of(self.wish), self.before[self.wish["wish"]])

    def is_wished(self, r: Record, holder: str | None) -> None:
        """Follow a wish, and expect that it starts and brings back only what it may."""
        if r.get("rewind") is not None:
            self.reads_again.add(r["wish"])
        if r.get("adopts"):
            self.adopting.add(r["wish"])
        if r.get("approval"):
            self.asks.add(r["wish"])
        if r.get("approved") or family_of(r) in self.ran:
            self.unapproved.discard(family_of(r))
        elif family_of(r) in self.asks:
            self.unapproved.add(family_of(r))
        if r["goal"] == "stand_by":
            self.candidate = r
            return
        expect(not r.get("back") or r["family"] in self.ran, "way-back", r)
        old, self.wish, self.candidate = self.wish, r, None
        stopped = old is not None and rests(old) and not holder
        self.follows = "" if rests(r) and not holder else self.follows  # nothing is to follow it any more
        expect(not stopped or rests(r) or not r.by.endswith(_START_NOTHING), "stop-stays", r)
        was = family_of(old) if old is not None and old["goal"] == "hold" else ""
        if was and old is not None and (was == family_of(r) or was not in self.ran):
            was = self.before[old["wish"]]
        self.before[r["wish"]] = was if r["goal"] == "hold" else ""

    def is_declared_as_wished(self, r: Record) -> None:
        """Expect that a deployment is declared for a wish that counts."""
        family = r["family"]
        waiting = self.candidate is not None and family_of(self.candidate) == family
        expect(self.wanted or waiting, "stop-stays", r)
        wished, before = self.to_hold or ("", "")
        in_place = self._never(wished) or (family == before and self._may_stand_in(wished))
        expect(waiting or family == wished or in_place, "as-wished", r)

    def is_appointed_as_wished(self, r: Record, to: str, *, may_be_any: bool, free: bool) -> None:
        """Expect that a deployment is appointed for a wish that counts.

        :param may_be_any: whether any that has held may be, as the wished one has not come up for long.
        :param free: whether no driver holds.
        """
        wished, before = self.to_hold
        expect(self.families[to] not in self.unapproved, "approved-first", r)
        if self.families[to] == wished:
            return
        before_it = self.families[to] == before and self._may_stand_in(wished)
        in_place = self.hashes[to] in self.proven and (self._never(wished) or before_it or may_be_any)
        expect(free and in_place, "as-wished", f"{to} in place of {wished}")
        back = self.wish is not None and self.wish.get("back") and self.wish.seq > self.held_from
        expect(not back, "rolled-back-stays", r)

    def _may_stand_in(self, wished: str) -> bool:
        """Whether what was to hold before may run in place of this family."""
        waits = wished in self.reads_again or wished in self.unapproved
        return waits or self.refused[wished] >= SEVERAL

    def _never(self, family: str) -> bool:
        """Whether what serves a family never commits."""
        return any(self._never_commits(self.hashes[n]) for n, f in self.families.items() if f == family)

    def _never_commits(self, release: str) -> bool:
        """Whether an older release may follow this one: one failure tells, or several that were fenced."""
        return release not in self.sound and (release in self.failed or self.in_vain[release] >= SEVERAL)


def family_of(wish: Record) -> str:
    """The family of a wish for a release."""
    return str(wish.get("family") or wish["wish"])


def rests(wish: Record) -> bool:
    return wish["goal"] in ("stop", "leave")
