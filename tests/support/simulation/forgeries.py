"""What somebody may put into the log who does not know the rules, and what a disk may make of a record."""

from __future__ import annotations

from collections.abc import Callable

from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.state import StreamState
from tests.support.simulation.oracle import FORGER

# What the rules forbid, in the form of a record: it is carried.
FORGERIES: dict[str, Callable[[StreamState], Record]] = {
    "acquired": lambda state: Record(
        Kind.ACQUIRED,
        {"incarnation": next(reversed([*state.incarnations]), "nobody"), "request": "forged", "epoch": state.epoch + 1},
        by=FORGER,
    ),
    "fenced": lambda state: Record(
        Kind.FENCED, {"incarnation": state.holder or "nobody", "reason": "because", "evidence": ""}, by=FORGER
    ),
    "a wish that was made already": lambda state: Record(
        Kind.WANTED,
        {"wish": next(reversed([*state.wishes]), "forged"), "goal": "stop" if state.wishes else "?"},
        by=FORGER,
    ),
    "a wish for nothing that there is": lambda state: Record(
        Kind.WANTED, {"wish": "forged", "goal": "paused", "family": next(iter(state.wishes), "")}, by=FORGER
    ),
    "a wish for a release that nobody has described": lambda state: Record(
        Kind.WANTED, {"wish": "forged", "goal": "hold", "family": "forged"}, by=FORGER
    ),
}
# What nobody can know to have been so from the beginning: it stops everybody who reads it, until a person mends it.
DAMAGE: dict[str, Callable[[StreamState], bytes | None]] = {
    "missing": lambda state: None,
    "torn": lambda state: b'{"kind": "acqui',
    "deep": lambda state: b"[" * 100_000,
    "spliced": lambda state: Record(
        Kind.FENCED,
        {"incarnation": state.holder or "nobody", "reason": "because", "evidence": "so"},
        by=FORGER,
        previous="another log's",
    ).to_json(),
}
