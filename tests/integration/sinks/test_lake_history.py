"""A ledger in a table whose history is changed by others: restored, rolled back, expired, cleaned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_stream_provider.sinks import Fenced, Gap, SinkError, SinkRefused
from airflow_stream_provider.sinks.iceberg import TRIES, IcebergLedger
from airflow_stream_provider.sinks.lake import LakeLedger
from airflow_stream_provider.sinks.ledger import is_to_be_written
from tests.support.lakes import Lake, frozen_driver, numbers
from tests.support.ledgers import MANAGED, batch

pytestmark = pytest.mark.system


@pytest.fixture
def delta(lakes: SparkSession, tmp_path: Path) -> Lake:
    found = Lake("delta", lakes, tmp_path)
    found.create()
    return found


@pytest.fixture
def iceberg(lakes: SparkSession, tmp_path: Path) -> Lake:
    found = Lake("iceberg", lakes, tmp_path)
    found.create()
    return found


def written(lake: Lake, **target: Any) -> Any:
    """Its ledger, after two batches of ten."""
    mine = lake.ledger(**target)
    mine.write(numbers(lake.spark, 0, 10), batch(0, 0, 10))
    mine.write(numbers(lake.spark, 10, 20), batch(1, 10, 20))
    return mine


def test_the_ledger_follows_a_restore(delta: Lake) -> None:
    mine = written(delta)
    delta.spark.sql(f"restore table {delta.name} to version as of 2")  # the claim is 1
    assert delta.rows() == (10, 10)
    with pytest.raises(Gap):
        is_to_be_written(mine.entry(), mine.id, batch(2, 20, 30))
    again = delta.ledger()
    assert again.entry().offsets == [{"orders": {"0": 10}}]
    again.write(numbers(delta.spark, 10, 12), batch(0, 10, 12, "q2"))
    assert delta.rows() == (12, 12)
    delta.spark.sql(f"restore table {delta.name} to version as of 0")
    assert (again.entry().query_id, list(again.entry().offsets)) == ("", [])
    assert delta.unclaimed().known() == again.entry()


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_that_is_set_back_while_the_rows_of_a_batch_are_computed_takes_none_of_them(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake: Lake = request.getfixturevalue(kind)
    mine = written(lake, key=("id",))
    checked = LakeLedger._checked

    @contextmanager
    def and_set_back(self: LakeLedger, frame: DataFrame) -> Iterator[DataFrame]:
        with checked(self, frame) as rows:
            set_back(lake)
            yield rows

    with monkeypatch.context() as patch:
        patch.setattr(LakeLedger, "_checked", and_set_back)
        with pytest.raises(Gap, match="10 offsets would never be written"):
            mine.write(numbers(lake.spark, 20, 30), batch(2, 20, 30))
    assert lake.rows() == (10, 10)
    assert mine.entry().offsets == [{"orders": {"0": 10}}]


def set_back(lake: Lake) -> None:
    """Set a table back to the first of two batches."""
    if lake.kind == "delta":
        lake.spark.sql(f"restore table {lake.name} to version as of 2")  # the claim is 1
    else:
        roll_back(lake, history(lake)[1])


@pytest.mark.parametrize("key", [(), ("id",)], ids=["append", "merge"])
def test_a_table_of_delta_that_is_restored_within_a_commit_takes_no_rows_of_it(
    delta: Lake, key: tuple[str, ...]
) -> None:
    with frozen_driver(delta, key) as zombie:
        delta.spark.sql(f"restore table {delta.name} to version as of 1")
        said = zombie.thaw()
    assert said[0].startswith("SinkError"), said
    assert delta.rows("count_if(name like 'late%')") == (0,)


def test_a_log_that_was_cleaned_is_no_guess(delta: Lake) -> None:
    written(delta)
    delta.spark.sql(f"alter table {delta.name} set tblproperties ('delta.checkpointInterval' = '1')")
    delta.append(numbers(delta.spark, 100, 101))
    log = Path(delta.table) / "_delta_log"
    assert list(log.glob("*.checkpoint.parquet"))
    for old in range(4):
        for each in log.glob(f"*{old:020}.*"):
            each.unlink()
    with pytest.raises(SinkRefused, match="history does not say any more where they end"):
        delta.ledger()
    assert delta.rows() == (21, 21)


def test_tables_of_delta_that_cannot_fence_are_refused(delta: Lake) -> None:
    delta.spark.sql(
        f"alter table {delta.name} set tblproperties ('delta.setTransactionRetentionDuration' = 'interval 1 day')"
    )
    with pytest.raises(SinkRefused, match="forgets transactions"):
        delta.ledger()


def test_a_store_of_delta_for_one_driver_is_refused(delta: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    spark, single = delta.spark, "io.delta.storage.S3SingleDriverLogStore"
    said = "lets two drivers write the same commit"
    delta.table = "s3a://bucket/orders"
    with pytest.raises(SinkRefused, match=said):
        delta.ledger()
    with monkeypatch.context() as patch:
        patch.setattr(spark.sparkContext, "getConf", lambda: {"spark.delta.logStore.s3a.impl": single})
        with pytest.raises(SinkRefused, match=said):
            delta.ledger()
    # A path without a scheme is where the session has its files.
    delta.table = "/orders"
    spark.conf.set("fs.defaultFS", "s3a://bucket")
    try:
        with pytest.raises(SinkRefused, match=said):
            delta.ledger()
    finally:
        spark.conf.unset("fs.defaultFS")


def test_the_entry_outlives_expired_snapshots(iceberg: Lake) -> None:
    mine = written(iceberg)
    for number in range(3):
        iceberg.append(numbers(iceberg.spark, 100 + number, 101 + number))
    iceberg.compact()
    mine.close()
    expire(iceberg)
    left = iceberg.spark.sql(f"select count(*) from {iceberg.name}.snapshots").first()
    assert left is not None
    assert left[0] == 2, "main's head, and that of the tag"
    assert mine.entry().offsets == [{"orders": {"0": 20}}]
    assert mine.write(numbers(iceberg.spark, 20, 30), batch(2, 20, 30)) == 10
    assert iceberg.rows() == (33, 33)

    # Without the tag.
    refs = iceberg.spark.sql(f"select name from {iceberg.name}.refs where type = 'TAG'").collect()
    iceberg.spark.sql(f"alter table {iceberg.name} drop tag `{refs[0][0]}`")
    assert mine.entry().batch_id == 2
    iceberg.append(numbers(iceberg.spark, 200, 201))
    mine.close()
    expire(iceberg)
    with pytest.raises(SinkRefused, match="do not say any more where they end"):
        iceberg.ledger()


def expire(lake: Lake) -> None:
    lake.spark.sql(
        f"call lake.system.expire_snapshots(table => '{lake.table}', retain_last => 1, "
        "older_than => timestamp '2100-01-01 00:00:00')"
    )


def test_the_ledger_follows_a_roll_back(iceberg: Lake) -> None:
    mine = written(iceberg)
    roll_back(iceberg, history(iceberg)[-2])
    assert iceberg.rows() == (10, 10)
    with pytest.raises(Gap):
        is_to_be_written(mine.entry(), mine.id, batch(2, 20, 30))
    again = iceberg.ledger()
    assert again.entry().offsets == [{"orders": {"0": 10}}]
    again.write(numbers(iceberg.spark, 10, 12), batch(0, 10, 12, "q2"))
    assert iceberg.rows() == (12, 12)


def roll_back(lake: Lake, snapshot: int) -> None:
    lake.spark.sql(f"call lake.system.rollback_to_snapshot('{lake.table}', {snapshot})")


def history(lake: Lake) -> list[int]:
    """Return the snapshots that main of a table of Iceberg had, the oldest first."""
    return [row[0] for row in lake.spark.sql(f"select snapshot_id from {lake.name}.history").collect()]


def test_a_claim_outlives_a_roll_back_to_before_it(iceberg: Lake) -> None:
    old = written(iceberg)
    before = history(iceberg)
    new = iceberg.ledger(replace(MANAGED, holder="two.b", hold=5))
    roll_back(iceberg, before[-2])
    with pytest.raises(Fenced, match=r"two\.b has claimed the ledger of orders/daily with epoch 2"):
        old.write(numbers(iceberg.spark, 10, 20), batch(1, 10, 20))
    with pytest.raises(Fenced):
        iceberg.ledger()
    with pytest.raises(Gap):
        is_to_be_written(new.entry(), new.id, batch(2, 20, 30))
    assert new.write(numbers(iceberg.spark, 10, 12), batch(0, 10, 12, "q2")) == 2
    assert iceberg.rows() == (12, 12)
    # To where the other one has looked last.
    head = history(iceberg)[-1]
    newer = iceberg.ledger(replace(MANAGED, holder="two.c", hold=6))
    roll_back(iceberg, head)
    with pytest.raises(Fenced, match=r"two\.c"):
        new.write(numbers(iceberg.spark, 12, 20), batch(1, 12, 20, "q2"))
    assert newer.write(numbers(iceberg.spark, 12, 20), batch(1, 12, 20, "q2")) == 8
    assert iceberg.rows() == (20, 20)


def test_a_claim_that_main_was_rolled_back_from_meanwhile_fences(
    iceberg: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Main is where it was, and the tag is not."""
    old = written(iceberg)
    head, new, publish = history(iceberg)[-1], list[Any](), IcebergLedger._publish

    def after_a_claim(self: IcebergLedger, *what: Any) -> bool:
        if not new:
            new.append(None)
            new[:] = [iceberg.ledger(replace(MANAGED, holder="two.b", hold=5))]
            roll_back(iceberg, head)
            self._start(head)  # as if that claim had not dropped the branch
            self._write(numbers(iceberg.spark, 20, 30), what[1])
        return publish(self, *what)

    monkeypatch.setattr(IcebergLedger, "_publish", after_a_claim)
    with pytest.raises(Fenced, match=r"two\.b"):
        old.write(numbers(iceberg.spark, 20, 30), batch(2, 20, 30))
    assert iceberg.rows() == (20, 20)
    assert new[0].write(numbers(iceberg.spark, 20, 30), batch(2, 20, 30)) == 10
    assert iceberg.rows() == (30, 30)


def test_a_driver_whose_branch_the_next_claim_has_dropped_is_fenced(
    iceberg: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = written(iceberg)
    publish, new = IcebergLedger._publish, list[Any]()

    def after_a_claim(self: IcebergLedger, *what: Any) -> bool:
        if not new:
            new.append(None)
            new[:] = [iceberg.ledger(replace(MANAGED, holder="two.b", hold=5))]
        return publish(self, *what)

    monkeypatch.setattr(IcebergLedger, "_publish", after_a_claim)
    with pytest.raises(Fenced, match=r"two\.b"):
        old.write(numbers(iceberg.spark, 20, 30), batch(2, 20, 30))
    assert iceberg.rows() == (20, 20)


def test_main_that_was_rolled_back_to_before_the_first_batch_is_empty_for_the_ledger(iceberg: Lake) -> None:
    iceberg.append(numbers(iceberg.spark, 100, 110))
    written(iceberg)
    roll_back(iceberg, history(iceberg)[0])
    iceberg.append(numbers(iceberg.spark, 200, 210))
    mine = iceberg.ledger()
    assert (mine.entry().query_id, list(mine.entry().offsets), mine.epoch) == ("", [], 2)
    assert mine.write(numbers(iceberg.spark, 0, 10), batch(0, 0, 10, "q2")) == 10
    assert iceberg.rows() == (30, 30)


def test_a_table_that_was_replaced_has_no_empty_ledger(iceberg: Lake) -> None:
    mine = written(iceberg)
    iceberg.spark.sql(
        f"create or replace table {iceberg.name} using iceberg as select * from {iceberg.name} where id<5"
    )
    for refused in (mine.entry, iceberg.ledger):
        with pytest.raises(SinkRefused, match="the table was replaced"):
            refused()
    assert iceberg.rows() == (5, 5)


@pytest.mark.parametrize("setting", ["spark.wap.id", "spark.wap.branch"])
@pytest.mark.parametrize("key", [(), ("id",)], ids=["append", "merge"])
def test_rows_that_iceberg_would_write_elsewhere_are_refused(iceberg: Lake, key: tuple[str, ...], setting: str) -> None:
    mine = written(iceberg, key=key)
    iceberg.spark.sql(f"alter table {iceberg.name} set tblproperties ('write.wap.enabled' = 'true')")
    iceberg.spark.conf.set(setting, "audit")
    try:
        with pytest.raises(SinkRefused, match=f"The session has {setting}"):
            mine.write(numbers(iceberg.spark, 20, 30), batch(2, 20, 30))
    finally:
        iceberg.spark.conf.unset(setting)
    assert iceberg.rows() == (20, 20)
    assert mine.write(numbers(iceberg.spark, 20, 30), batch(2, 20, 30)) == 10
    assert iceberg.rows() == (30, 30)


@pytest.mark.parametrize("key", [(), ("id",)], ids=["append", "merge"])
def test_a_batch_is_written_again_where_others_have_moved_main(
    iceberg: Lake, monkeypatch: pytest.MonkeyPatch, key: tuple[str, ...]
) -> None:
    written(iceberg)
    mine = iceberg.ledger(key=key)
    publish, tries = IcebergLedger._publish, []

    def after_others(self: IcebergLedger, *what: Any) -> bool:
        tries.append(1)
        if len(tries) == 1:
            iceberg.compact()
        if len(tries) == 2:
            iceberg.append(numbers(iceberg.spark, 100, 101))
        return publish(self, *what)

    monkeypatch.setattr(IcebergLedger, "_publish", after_others)
    assert mine.write(numbers(iceberg.spark, 20, 30), batch(2, 20, 30)) == 10
    assert len(tries) == 3
    assert iceberg.rows() == (31, 31)


def test_main_that_moves_all_the_time_is_left_to_the_next_try(iceberg: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = written(iceberg)
    publish, others = IcebergLedger._publish, []

    def after_others(self: IcebergLedger, *what: Any) -> bool:
        others.append(1)
        iceberg.append(numbers(iceberg.spark, 100 + len(others), 101 + len(others)))
        return publish(self, *what)

    with monkeypatch.context() as patch:
        patch.setattr(IcebergLedger, "_publish", after_others)
        with pytest.raises(SinkError, match="have moved main of"):
            mine.write(numbers(iceberg.spark, 20, 30), batch(2, 20, 30))
    assert iceberg.rows() == (20 + TRIES, 20 + TRIES)
    assert mine.write(numbers(iceberg.spark, 20, 30), batch(2, 20, 30)) == 10
    assert iceberg.rows() == (30 + TRIES, 30 + TRIES)


def test_a_roll_back_during_a_batch_is_not_undone(iceberg: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = written(iceberg)
    before = history(iceberg)[-2]
    publish = IcebergLedger._publish

    def after_it(self: IcebergLedger, *what: Any) -> bool:
        roll_back(iceberg, before)
        return publish(self, *what)

    monkeypatch.setattr(IcebergLedger, "_publish", after_it)
    with pytest.raises(SinkError):
        mine.write(numbers(iceberg.spark, 20, 30), batch(2, 20, 30))
    assert iceberg.rows() == (10, 10)
