"""Whether what is foretold is what is done: on random legal logs, for every verb, against drivers that are played.

`python -m tests.support.foretold 10000` tries so many logs, and prints what came of each verb.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from airflow_stream_provider.clusters import DriverState, Remains, UnmanagedView
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.asked import Asked
from airflow_stream_provider.planning.forecast import foretell
from airflow_stream_provider.planning.foreseen import Foreseen, Wanted
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import GiveUp, Skip
from tests.support.deed import Stuck, do, do_fence
from tests.support.random_logs import JOB, a_log, with_heartbeats
from tests.support.story import hash_of

RUNS = UnmanagedView(JOB, DriverState.RUNNING, "the old job", Remains(("It runs.",)))
NEW = Wanted("9", hash_of("new"))

Essence = tuple[list[tuple[str, ...]], list[tuple[str, ...]]]


def essence(records: list[Record], before: StreamState) -> Essence:
    """Return what the tasks have written, in order, and what the drivers have, without what they say of themselves.

    New deployments are told by their number: their ids differ. Drivers that go on with an open request do so while a
    task does something else. That the submission of a driver is noted, of which its heartbeat alone knows, is left out.
    """
    new: dict[str, str] = {}

    def name(of: object) -> str:
        deployment = deployment_of(str(of)) if "." in str(of) else str(of)
        return new.get(deployment, deployment)

    by_tasks, by_drivers = list[tuple[str, ...]](), list[tuple[str, ...]]()
    for each in records:
        if each.kind == Kind.DECLARED:
            new[each["deployment"]] = f"new {len(new)}"
        noted = each.kind == Kind.SUBMITTED and before.of_deployment(each["deployment"])
        if each.kind in (Kind.STANDBY, Kind.READY) or noted:
            continue
        of = each.get("incarnation") or each.get("deployment") or each.get("goal") or ""
        said = (each.kind, name(of), name(each.get("to") or ""))
        (by_drivers if each.by.startswith("driver:") else by_tasks).append(said)
    return by_tasks, by_drivers


def requests(found: Snapshot, rng: random.Random) -> Iterator[Asked]:
    """What may be asked of this stream: every verb, in its variants."""
    held, holder = found.state.holding_deployment, found.state.holder
    version = held.release.version if held is not None else "0"
    same = Wanted(version, hash_of(version), approval=rng.random() < 0.3)
    hangs = f"{holder} hangs." if holder is not None and rng.random() < 0.2 else ""
    for operation in (Operation.STOP, Operation.RETIRE, Operation.ROLL_BACK, Operation.ABORT, Operation.FENCE):
        yield Asked(found, operation)
    for operation in (Operation.START, Operation.RESTART):
        yield Asked(found, operation, same if rng.random() < 0.8 else NEW)
    yield Asked(found, Operation.PROMOTE, Wanted(hanging=hangs))
    for restart in (False, True):
        yield Asked(found, Operation.UPGRADE, replace(NEW, restart=restart, approval=same.approval, hanging=hangs))
    how = rng.choice(("by its id", "by a word", "by asking"))
    by_id = JOB if how == "by its id" else ""
    who = "Ada" if how == "by a word" else ""
    job = replace(found, job=RUNS if by_id else None)
    yield Asked(job, Operation.ADOPT, NEW, confirmed_by=who, job=by_id)


@dataclass(frozen=True)
class Tried:
    """One request: what came of it in a word, and how forecast and deed differ; empty: they do not."""

    asked: Asked
    word: str
    differs: str = ""


def compare(asked: Asked, rng: random.Random, lost: set[str]) -> Tried:
    """Foretell an operation, do it, and compare."""
    try:
        return _compare(asked, rng, lost)
    except Exception as error:  # noqa: BLE001 - it is told with its seed
        return Tried(asked, "raised", f"{type(error).__name__}: {error}")


def _compare(asked: Asked, rng: random.Random, lost: set[str]) -> Tried:
    said, ahead = foretell(asked)
    if asked.operation is Operation.FENCE:
        return _compare_fence(asked, said, rng, lost)
    assert ahead is not None
    try:
        end, written = do(asked, rng, lost)
    except Stuck as stuck:
        differs = "" if ahead is not None and ahead.end is None else f"foretold {said}, but nobody ends {stuck}"
        return Tried(asked, "unknown", differs)
    foretold, did = (essence(each, asked.snapshot.state) for each in (ahead.course.records, written))
    word = "refused" if said.refused else "done" if said.done else "will"
    expected = "refused" if isinstance(end, GiveUp) else "done" if isinstance(end, Skip) and not any(did) else "will"
    if word != expected:
        why = said.refused or said.done or said.will
        return Tried(asked, word, f"foretold {word} ({why}), was {expected}: {end} {getattr(end, 'error', '')} {did}")
    if foretold != did:
        return Tried(asked, word, f"foretold {foretold}, was {did}")
    if type(ahead.end) is not type(end):
        return Tried(asked, word, f"foretold {ahead.end}, was {end}")
    if isinstance(end, GiveUp) and end.error.next_step not in said.refused:
        return Tried(asked, word, f"foretold {said.refused}, was {end.error}")
    return Tried(asked, word)


def _compare_fence(asked: Asked, said: Foreseen, rng: random.Random, lost: set[str]) -> Tried:
    state = asked.snapshot.state
    driver = state.must_fence[0] if state.must_fence else state.holder
    if driver is None:
        return Tried(asked, "done", "" if said.done else f"foretold {said}")
    fenced = [r["incarnation"] for r in do_fence(asked, driver, rng, lost) if r.kind == Kind.FENCED]
    right = said.deployment == deployment_of(driver) and driver in fenced
    return Tried(asked, "will", "" if right else f"foretold {said.deployment}, was {fenced}")


def tries(seed: int) -> Iterator[Tried]:
    """Try every verb on the log of a seed."""
    rng = random.Random(seed)
    found, lost = with_heartbeats(a_log(rng), rng)
    for number, asked in enumerate(requests(found, rng)):
        yield compare(asked, random.Random(f"{seed}-{number}"), lost)


def main(seeds: range) -> int:
    """Print what came of each verb; return how often the forecast was wrong."""
    words: Counter[str] = Counter()
    wrong = 0
    for seed in seeds:
        for each in tries(seed):
            words[f"{each.asked.operation.value} {'WRONG' if each.differs else each.word}"] += 1
            if each.differs:
                wrong += 1
                if wrong <= 20:
                    print(f"{seed} {each.asked.operation.value}: {each.differs}")
    print(f"{len(seeds)} logs: " + ", ".join(f"{word} {number}" for word, number in sorted(words.items())))
    return wrong


if __name__ == "__main__":
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    sys.exit(min(main(range(first, first + int(sys.argv[1]))), 1))
