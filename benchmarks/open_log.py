"""What it costs to open a control log, by its length: from the first record, and from the saved state.

    python -m benchmarks.open_log [--rounds 5] [--records 1000 10000 100000]

The log is that of a stream that is upgraded and crashes, again and again. The state was saved as long ago as it can be:
all but one of SAVE_EVERY records have been written since. Files are in the page cache; the process is one that has
imported everything, as a trigger's is.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from airflow_stream_provider.control import ControlLog, make_root, open_log
from airflow_stream_provider.control.log import SAVE_EVERY
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.saved_state import dump
from airflow_stream_provider.lifecycle.state import StreamState
from benchmarks.results import machine, show, spread, write
from devstack.control_folder import folder_of

WANTED_SECONDS = 0.2


def life() -> Iterator[Record]:
    """Yield the records of a stream for ever: each deployment takes over from the last one, every third one crashes."""
    holder = ""
    for number in itertools.count(1):
        deployment = f"orders-2-1-{number}-{number:08x}"
        name, request = f"{deployment}.0000000a", f"{number:016x}"
        release = {
            "version": f"2.1.{number // 5}",
            "hash": hashlib.sha256(str(number // 5).encode()).hexdigest(),
            "application": "orders.py",
            "arguments": ["--bootstrap", "kafka:9092", "--checkpoint", "/data/checkpoints/orders"],
            "py_files": ["common.py"],
            "conf": {f"spark.executor.setting{n}": str(n) for n in range(10)},
        }
        queries = [
            {"name": each, "checkpoint": f"/data/checkpoints/{each}", "sink": "kafka", "sources": ["kafka:subscribe=a"]}
            for each in ("enrich", "totals")
        ]
        yield _record(Kind.DECLARED, deployment=deployment, release=release, policy={}, reason="the next version")
        yield _record(Kind.SUBMITTED, deployment=deployment, submission=f"driver-{number}", cluster="spark")
        yield _record(Kind.STANDBY, deployment=deployment, incarnation=name, queries=queries, rehearsal={"seconds": 21})
        yield _record(Kind.REQUESTED, request=request, to=name, expires=2e9, reason="wanted")
        yield _record(Kind.READY, request=request, incarnation=name)
        if holder:
            yield _record(Kind.RELEASED, incarnation=holder, request=request, to=name, boundary="completed", ends={})
        yield _record(Kind.ACQUIRED, incarnation=name, request=request, epoch=number)
        if holder:
            yield _record(Kind.RETIRED, deployment=holder.partition(".")[0], reason="not needed")
        holder = name
        if number % 3 == 0:
            yield _record(Kind.FAILED, deployment=deployment, incarnation=name, reason="it broke", error="Boom")
            holder = ""


def _record(kind: str, **fields: object) -> Record:
    return Record(kind, fields, by="airflow:orders__upgrade/manual__2026-11-22T00:00:00+00:00/hand_over", at=1e9)


def build(folder: Path, length: int) -> ControlLog:
    """Write a log of so many records, without syncing them, and save its state as early as it may be; return it."""
    make_root(folder.as_uri())
    log = open_log(folder.as_uri(), "orders", create=True)
    state = StreamState()
    for seq, record in enumerate(itertools.islice(life(), length), start=1):
        written = record.numbered(seq, state.nonce)
        (folder_of(log) / "log" / f"{seq:020d}.json").write_bytes(written.to_json())
        state = fold([written], state)
        if seq == max(1, length - SAVE_EVERY + 1):
            log.store.put_saved_state(dump(state))
    if state.illegal_count:
        raise SystemExit(f"the log is not legal: {state.illegal[0]}")
    return log


def opened(log: ControlLog, url: str, *, saved: bool) -> float:
    """Open the log once more and return the seconds that it took."""
    hidden = folder_of(log) / "hidden"
    kept = folder_of(log) / "state.jsonl"
    if not saved:
        kept.rename(hidden)
    began = time.perf_counter()
    state = open_log(url, "orders").refresh()
    seconds = time.perf_counter() - began
    if not saved:
        hidden.rename(kept)
    if not state.seq:
        raise SystemExit("the log is empty")
    return seconds


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    options = parser.parse_args()
    before = machine()
    found = {}
    sizes = {}
    for length in options.records:
        with tempfile.TemporaryDirectory() as folder:
            log = build(Path(folder), length)
            sizes[length] = len(log.store.saved_state() or b"")
            for saved in (False, True):
                seconds = [opened(log, Path(folder).as_uri(), saved=saved) for _ in range(options.rounds)]
                found[f"{length:,} {'from the saved state' if saved else 'from the first'}"] = spread(seconds)
    longest = max(options.records)
    whole, saved_one = (found[f"{longest:,} {how}"]["p50"] for how in ("from the first", "from the saved state"))
    verdicts = {f"{longest:,} from the saved state, p50 (s)": (saved_one, "<=", WANTED_SECONDS)}
    show("opening a control log (s)", found, verdicts)
    ratio = whole / saved_one
    print(f"{longest:,} records: {ratio:.1f} times as fast from the saved state; it has {sizes[longest]:,} bytes")
    write("open_log", {"sides": found, "ratio": round(ratio, 1), "saved_bytes": sizes, "machine": before})
    return 0


if __name__ == "__main__":
    sys.exit(main())
