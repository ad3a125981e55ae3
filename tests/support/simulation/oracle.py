"""The rules of docs/architecture.md in other words than the product's: over the log as written, and over the truth."""

from __future__ import annotations

from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.state import StreamState
from tests.support.simulation.world import World

# Whoever writes to the control folder past the rules.
FORGER = "somebody"
ENDS = (Kind.RELEASED, Kind.FAILED, Kind.FINISHED, Kind.FENCED)


class Oracle:
    """Follows the log record by record; `look` after every step."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.state = StreamState()
        self.seen = 0
        self.holder: str | None = None
        self.epoch = 0
        self.torn: set[str] = set()
        self.asked: dict[str, Record] = {}
        # By request: the standby's heartbeat when it answered.
        self.answered: dict[str, int] = {}
        self.released_for: dict[str, str] = {}
        self.over: set[str] = set()
        self.ended: set[str] = set()
        self.lost: set[str] = set()
        self.wanted = False
        self.kinds: dict[str, int] = {}

    def look(self) -> None:
        damaged = self.world.damaged
        while self.seen + 1 not in damaged and (data := self.world.store.read(self.seen + 1)) is not None:
            self.seen += 1
            record = Record.read(data, self.seen)
            before, self.state = self.state, fold([record], self.state)
            if record.by == FORGER or record.kind == Kind.UNREADABLE:
                found = (self.state.illegal_count, self.state.illegal[-1].seq)
                assert found == (before.illegal_count + 1, self.seen), "a forged record is obeyed"
            else:
                assert self.state.illegal == before.illegal, f"{record} was written and is illegal"
                self._follow(record)
            assert (self.state.holder, self.state.epoch) == (self.holder, self.epoch)
            assert set(self.state.must_fence) == self.torn
        behind = [seq for seq in getattr(self.world.store, "stored", {}) if seq > self.seen and seq not in damaged]
        assert not behind, "a gap in the log, or somebody went on after what nobody can read"
        self._look_at_the_truth()

    def _look_at_the_truth(self) -> None:
        assert not self.world.violation, self.world.violation
        writers = self.world.writers()
        assert len(writers) <= 1, f"rule 1: {writers} write at the same time"
        # Even before anybody else starts: what writes is known to the log as the holder or as one to be fenced.
        assert {*writers} <= {self.holder, *self.torn}, f"rule 1: {writers} write, but {self.holder} holds"
        again = len(self.world.submitted) - len(set(self.world.submitted))
        # No cluster tells two submissions that are under way at the same moment apart: `submit_once` kills the second.
        assert again == self.world.overlapping_submits, "rule 5: submitted again, though the first had arrived"

    def _follow(self, record: Record) -> None:
        self.kinds[record.kind] = self.kinds.get(record.kind, 0) + 1
        check = getattr(self, f"_{record.kind}", None)
        if check is not None:
            check(record)
        if record.kind in ENDS and record.get("incarnation") == self.holder and self.holder is not None:
            asked_to_stop = any(r.get("to") is None for id, r in self.asked.items() if id not in self.over)
            self.wanted = not (asked_to_stop or record.kind == Kind.FINISHED)
            self.holder = None
            self.over |= {id for id, r in self.asked.items() if r.get("to") is None}
        if record.kind in (Kind.FAILED, Kind.FENCED):
            self.lost.add(record.get("incarnation") or "nobody")
        if record.kind in (Kind.FAILED, Kind.RELEASED) and record.get("boundary") == "interrupted":
            self.torn.add(record["incarnation"])

    def _counter(self, incarnation: str) -> int:
        data = self.world.store.heartbeat(incarnation)
        return 0 if data is None else Heartbeat.from_json(data, incarnation).counter

    def _declared(self, r: Record) -> None:
        assert r["deployment"] not in self.ended
        assert self.wanted or not _by_watch(r), "the watch brings up what a person had stopped"

    def _requested(self, r: Record) -> None:
        assert r["request"] not in self.asked, "rule 5: a request is made once"
        assert set(self.asked) <= self.over, "rule 3: one open request"
        assert self.wanted or not _by_watch(r) or self.holder, "the watch started what a person had stopped"
        self.asked[r["request"]] = r

    def _ready(self, r: Record) -> None:
        assert r["request"] not in self.over
        assert self.asked[r["request"]]["to"] == r["incarnation"]
        self.answered[r["request"]] = self._counter(r["incarnation"])

    def _released(self, r: Record) -> None:
        assert r["incarnation"] == self.holder
        if r["request"] is not None:
            assert r["request"] not in self.over
            assert self.asked[r["request"]]["to"] is None or r["request"] in self.answered, (
                "rule 3: released before ready"
            )
            assert self.asked[r["request"]]["to"] not in self.lost, "rule 3: released to a driver that is lost"
            to = self.asked[r["request"]]["to"]
            assert to is None or self._counter(to) > self.answered[r["request"]], (
                "rule 3: released to a driver whose heartbeat did not move after its answer"
            )
            self.released_for[r["request"]] = r["incarnation"]

    def _acquired(self, r: Record) -> None:
        assert self.holder is None, "rule 1: two holders in the log"
        assert not self.torn, "rule 6: acquired before an interrupted one was fenced"
        assert r["epoch"] == self.epoch + 1, "rule 3: the epoch grows by one"
        assert r["request"] not in self.over, "rule 3: acquired without an open request"
        assert r["request"] in self.answered
        assert r["incarnation"] in (self.asked[r["request"]]["to"], self.released_for.get(r["request"]))
        assert deployment_of(r["incarnation"]) not in self.ended, "rule 9: acquired after its deployment's end"
        self.holder, self.epoch = r["incarnation"], self.epoch + 1
        self.over.add(r["request"])

    def _fenced(self, r: Record) -> None:
        driver = self.world.drivers[r["incarnation"]]
        assert driver.over, "rule 4: fenced before it was gone"
        assert not driver.writing, "rule 4: fenced before its executors were gone"
        self.torn.discard(r["incarnation"])

    def _failed(self, r: Record) -> None:
        error = r.get("error", "")
        broken = r["reason"] == "The runtime itself failed" or error.startswith("RuleBroken")
        assert not broken, f"the agent raised an error: {error}"

    def _aborted(self, r: Record) -> None:
        assert r["request"] not in self.over
        self.over.add(r["request"])

    def _stopped(self, r: Record) -> None:
        assert self.holder is None, "a holder is asked to stop"
        assert set(self.asked) <= self.over, "rule 3: one open request"
        assert r["request"] not in self.asked, "rule 5: a request is made once"
        self.asked[r["request"]] = r
        self.over.add(r["request"])
        self.wanted = False

    def _retired(self, r: Record) -> None:
        assert self.holder is None or deployment_of(self.holder) != r["deployment"]
        self.ended.add(r["deployment"])


def _by_watch(record: Record) -> bool:
    return record.by == "watch" or record.by.startswith("airflow:orders__watch/")
