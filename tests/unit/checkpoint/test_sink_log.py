"""Which batches a sink remembers, by its files; tests/integration/runtime/test_positions.py has Spark write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_stream_provider.checkpoint.logs import DELTA_COMMITS, SinkLog, delta_batch, read_sink_log
from airflow_stream_provider.lifecycle.errors import CheckpointError


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ([], SinkLog()),
        (["0", ".0.crc", "1", ".2.a1b2.tmp", "readme"], SinkLog(1)),
        (["9.compact", "10", "11"], SinkLog(11)),
        ([*map(str, range(9)), "9.compact"], SinkLog(9)),
        (["19.compact", "3"], SinkLog(19)),
        # The folder of before, to which a query goes back after it has written elsewhere.
        (["0", "1", "2", "3", "9"], SinkLog(9, (4, 5, 6, 7, 8))),
        (["9.compact", "12"], SinkLog(12, (10, 11))),
        (["5"], SinkLog(5, (0, 1, 2, 3, 4))),
    ],
)
def test_the_log_of_a_file_sink(tmp_path: Path, names: list[str], found: SinkLog) -> None:
    (tmp_path / "_spark_metadata").mkdir()
    for name in names:
        (tmp_path / "_spark_metadata" / name).touch()
    assert read_sink_log(tmp_path) == found


def test_a_folder_without_a_log_remembers_nothing(tmp_path: Path) -> None:
    assert read_sink_log(tmp_path / "none") == SinkLog()
    assert delta_batch(tmp_path / "none", "an-id") is None


def commit(table: Path, number: int, *actions: object) -> None:
    path = table / "_delta_log" / f"{number:020}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def test_a_delta_table_knows_the_last_batch_of_each_query(tmp_path: Path) -> None:
    commit(tmp_path, 0, {"protocol": {}}, {"metaData": {"id": "t"}})
    commit(tmp_path, 1, {"txn": {"appId": "mine", "version": 4}}, {"add": {"path": 'a"txn"b'}})
    commit(tmp_path, 2, {"txn": {"appId": "other", "version": 90}})
    (tmp_path / "_delta_log" / "_last_checkpoint").write_text("{}")
    assert delta_batch(tmp_path, "mine") == 4
    assert delta_batch(tmp_path, "other") == 90
    assert delta_batch(tmp_path, "new") is None
    for number in range(3, 3 + DELTA_COMMITS):
        commit(tmp_path, number, {"add": {}})
    assert delta_batch(tmp_path, "mine") is None, "the limit that the docs name"


def test_a_log_that_is_none_of_delta_is_named(tmp_path: Path) -> None:
    commit(tmp_path, 0)
    (tmp_path / "_delta_log" / f"{1:020}.json").write_text('{"txn": {"appId": ')
    with pytest.raises(CheckpointError, match=r"00001\.json is damaged: a line of it is no action of Delta"):
        delta_batch(tmp_path, "mine")
