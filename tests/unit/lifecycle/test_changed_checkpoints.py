from __future__ import annotations

import pytest

from airflow_stream_provider.lifecycle.changed_checkpoints import Change, locations, parsed
from airflow_stream_provider.lifecycle.errors import SpecError


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ("/data/q", ("/data/q", Change.CHECKPOINT)),
        ("hdfs://nn:8020/data/q", ("hdfs://nn:8020/data/q", Change.CHECKPOINT)),
        ("hdfs://nn:8020/data/q: source", ("hdfs://nn:8020/data/q", Change.SOURCE)),
        ("/data/q: sink", ("/data/q", Change.SINK)),
        ("/data/q :  sink_log ", ("/data/q", Change.SINK_LOG)),
        ("/data/a: b/q: sink", ("/data/a: b/q", Change.SINK)),
    ],
)
def test_an_entry_names_a_checkpoint_and_one_change(entry: str, found: tuple[str, Change]) -> None:
    assert parsed(entry) == found


@pytest.mark.parametrize("entry", ["/data/q: everything", "/data/q: sinks"])
def test_what_is_no_change_is_refused_by_name(entry: str) -> None:
    with pytest.raises(SpecError, match="is no change that can be named") as refused:
        parsed(entry)
    assert "source, sink, sink_log" in refused.value.next_step


def test_each_entry_counts_for_its_change_alone() -> None:
    entries = ["/a", "/b: source", "/b: sink"]
    assert [locations(entries, change) for change in Change] == [["/a"], ["/b"], ["/b"], []]
