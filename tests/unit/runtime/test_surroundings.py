"""Whether what a rehearsal has gone by is still so. With a real plan and real executors:
tests/integration/runtime/test_stale_standby.py.
"""

from __future__ import annotations

from airflow_stream_provider.runtime.rehearsal import changed

SEEN = {"executors": ["a:1", "b:2"], "topics and partitions of the query q": [{"orders": [0, 1]}]}


def test_what_is_as_it_was_needs_no_word() -> None:
    assert changed(SEEN, dict(SEEN)) == ""
    assert changed({}, {}) == ""


def test_what_is_other_than_it_was_is_named() -> None:
    now = {**SEEN, "topics and partitions of the query q": [{"orders": [0, 1, 2]}]}
    assert changed(SEEN, now) == "other topics and partitions of the query q than in its rehearsal"
    assert changed(SEEN, {}) == "other executors; topics and partitions of the query q than in its rehearsal"
    assert changed({}, {"executors": []}) == "other executors than in its rehearsal", "one that was not there"
