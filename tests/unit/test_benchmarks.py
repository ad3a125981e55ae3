"""What the benchmarks make up is what the package accepts."""

from __future__ import annotations

import itertools

from airflow_stream_provider.lifecycle.fold import follow
from airflow_stream_provider.lifecycle.state import StreamState
from benchmarks.open_log import life


def test_the_log_whose_opening_is_measured_is_legal() -> None:
    state = StreamState()
    for seq, record in enumerate(itertools.islice(life(), 100), start=1):
        state = follow(state, record.numbered(seq, state.nonce))
    assert state.illegal_count == 0
