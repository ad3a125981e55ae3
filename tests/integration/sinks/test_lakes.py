"""The ledger in the commits of real tables of Delta and Iceberg, with drivers that die, freeze and come too late."""

from __future__ import annotations

import copy
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_stream_provider.sinks import BadRows, Fenced
from airflow_stream_provider.sinks.delta import DeltaLedger
from airflow_stream_provider.sinks.lake import LakeLedger
from airflow_stream_provider.sinks.ledger import Writer, is_to_be_written
from tests.support.lakes import Job, Lake, frozen_driver, numbers
from tests.support.ledgers import MANAGED, batch

pytestmark = pytest.mark.system
LATER = replace(MANAGED, holder="two.b", hold=5)


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, lakes: SparkSession, tmp_path: Path) -> Lake:
    """A table of each kind."""
    found = Lake(request.param, lakes, tmp_path)
    found.create()
    return found


def test_rows_and_offsets_are_written_together(lake: Lake) -> None:
    mine = lake.ledger()
    assert mine.write(numbers(lake.spark, 0, 10), batch(0, 0, 10)) == 10
    assert mine.write(numbers(lake.spark, 10, 15), batch(1, 10, 15)) == 5
    assert lake.rows() == (15, 15)
    entry = mine.entry()
    assert (entry.query_id, entry.batch_id, entry.offsets, entry.epoch) == ("q1", 1, [{"orders": {"0": 15}}], 1)
    assert not is_to_be_written(entry, mine.id, batch(1, 10, 15))
    assert lake.unclaimed(Writer("orders", "other", "x")).known() is None
    assert lake.unclaimed().known() == entry


def test_a_driver_of_a_later_hold_fences_the_one_before(lake: Lake) -> None:
    old = lake.ledger()
    old.write(numbers(lake.spark, 0, 10), batch(0, 0, 10))
    stale, entry = copy.copy(old), old.entry()
    new = lake.ledger(LATER)
    with pytest.raises(Fenced, match=r"two\.b has claimed the ledger of orders/daily with epoch 2"):
        old.write(numbers(lake.spark, 10, 20), batch(1, 10, 20))
    # One that has looked before the claim, and commits after it: Delta skips that without a word.
    with pytest.raises(Fenced):
        stale._add(numbers(lake.spark, 10, 20), replace(entry, batch_id=1))
    assert new.write(numbers(lake.spark, 10, 20), batch(1, 10, 20)) == 10
    with pytest.raises(Fenced):
        lake.ledger()  # a driver that held before, and comes late
    assert new.write(numbers(lake.spark, 20, 21), batch(2, 20, 21)) == 1
    assert lake.rows() == (21, 21)


def test_a_driver_of_a_later_hold_is_not_kept_out_by_a_claim_at_the_same_moment(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, old = lake.unclaimed(LATER), list[LakeLedger]()
    commit = new._commit

    def after_the_old_one(*what: Any) -> None:
        if not old:
            old.append(lake.ledger())
        commit(*what)

    monkeypatch.setattr(new, "_commit", after_the_old_one)
    new.claim()
    assert new.epoch == 2
    with pytest.raises(Fenced, match=r"two\.b"):
        old[0].write(numbers(lake.spark, 0, 10), batch(0, 0, 10))
    assert new.write(numbers(lake.spark, 0, 10), batch(0, 0, 10)) == 10
    # The other way round, the one that held before is refused.
    late, newer = lake.unclaimed(LATER), list[LakeLedger]()
    commit_late = late._commit

    def after_the_new_one(*what: Any) -> None:
        if not newer:
            newer.append(lake.ledger(replace(LATER, holder="three.a", hold=6)))
        commit_late(*what)

    monkeypatch.setattr(late, "_commit", after_the_new_one)
    with pytest.raises(Fenced, match=r"three\.a"):
        late.claim()
    assert newer[0].write(numbers(lake.spark, 10, 20), batch(1, 10, 20)) == 10
    assert lake.rows() == (20, 20)


@pytest.mark.parametrize("key", [(), ("id",)], ids=["append", "merge"])
def test_a_driver_that_was_frozen_in_its_transaction_leaves_nothing(lake: Lake, key: tuple[str, ...]) -> None:
    with frozen_driver(lake, key) as zombie:
        new = lake.ledger(LATER, key=key)
        assert new.entry().offsets == [{"orders": {"0": 10}}]
        assert new.write(numbers(lake.spark, 10, 20), batch(1, 10, 20)) == 10
        said = zombie.thaw()
    assert said[0].startswith("Fenced"), said
    assert "two.b has claimed the ledger of orders/daily with epoch 2" in said[0]
    assert said[1] == "Fenced"
    assert lake.rows("count(*), count(distinct id), count_if(name like 'late%')") == (20, 20, 0)


def test_a_claim_alone_fences_a_frozen_driver(lake: Lake) -> None:
    with frozen_driver(lake) as zombie:
        lake.ledger(LATER)
        said = zombie.thaw()
    assert said[0].startswith("Fenced"), said
    assert lake.rows() == (10, 10)


def test_a_row_replaces_the_one_with_its_key_and_a_mark_removes_it(lake: Lake) -> None:
    mine = lake.ledger(key=("id",), delete="gone")
    assert mine.write(numbers(lake.spark, 0, 10).selectExpr("*", "false as gone"), batch(0, 0, 10)) == 10
    changed = numbers(lake.spark, 5, 15, "new").selectExpr("*", "if(id % 5 = 0, true, null) as gone")
    assert mine.write(changed, batch(1, 10, 20)) == 10
    assert lake.rows("count(*), sum(id), count_if(name like 'new%')") == (13, sum(range(15)) - 15, 8)
    twice = numbers(lake.spark, 0, 3).union(numbers(lake.spark, 2, 3)).selectExpr("*", "false as gone")
    with pytest.raises(BadRows, match=r"Several rows of the batch have the same key \(id\)"):
        mine.write(twice, batch(2, 20, 24))
    none = lake.spark.sql("select cast(null as bigint) as id, 'a' as name, false as gone")
    with pytest.raises(BadRows, match="has no value in key"):
        mine.write(none, batch(2, 20, 24))
    assert mine.entry().batch_id == 1
    # Without the columns that the table has besides.
    assert mine.write(lake.spark.sql("select 4L as id, true as gone"), batch(2, 20, 24)) == 1
    assert lake.rows() == (12, 12)
    assert lake.spark.conf.get("spark.databricks.delta.write.txnAppId", None) is None


def test_commits_of_others_lie_between(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[DeltaLedger.__module__], "_NEWEST", 3)
    mine = lake.ledger()
    mine.write(numbers(lake.spark, 0, 10), batch(0, 0, 10))
    lake.compact()
    other = lake.ledger(Writer("orders", "other", "a job"))
    other.write(numbers(lake.spark, 100, 110), batch(0, 0, 10))
    for number in range(4):
        lake.append(numbers(lake.spark, 1000 + number, 1001 + number))
    assert lake.ledger().entry().offsets == [{"orders": {"0": 10}}]
    assert other.write(numbers(lake.spark, 110, 120), batch(1, 10, 20)) == 10
    lake.compact()
    assert lake.rows() == (34, 34)
    with pytest.raises(Fenced):
        mine.write(numbers(lake.spark, 10, 20), batch(1, 10, 20))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("id, name, 1 as more", "the table has no column more"),
        ("cast(id as string) as id, name", "id is string in the batch and bigint in the table"),
        ("name", "id may not be null, and the batch does not have it"),
    ],
)
def test_rows_that_do_not_fit_are_refused(lake: Lake, columns: str, said: str) -> None:
    mine = lake.ledger()
    with pytest.raises(BadRows, match=said):
        mine.write(numbers(lake.spark, 0, 10).selectExpr(*columns.split(", ")), batch(0, 0, 10))
    assert lake.rows() == (0, 0)
    assert mine.entry().batch_id == -1


def test_narrow_types_are_widened_and_the_table_refuses_nulls(lake: Lake) -> None:
    mine = lake.ledger()
    assert mine.write(numbers(lake.spark, 0, 5).selectExpr("cast(id as int) as id"), batch(0, 0, 5)) == 5
    with pytest.raises(BadRows, match="break a rule of the table"):
        mine.write(
            lake.spark.sql("select try_cast(name as bigint) as id from values ('a') as t(name)"), batch(1, 5, 10)
        )
    assert lake.rows() == (5, 5)


def test_a_table_is_created_by_the_first_batch(lake: Lake) -> None:
    lake.table += "_2"
    with pytest.raises(BadRows, match=r"There is no (Delta|Iceberg) table"):
        lake.ledger()
    mine = lake.ledger(create=True, key=("id",), delete="gone")
    rows = numbers(lake.spark, 0, 10).selectExpr("*", "false as gone")
    assert is_to_be_written(mine.entry(), mine.id, batch(0, 0, 10))
    mine.rehearse(rows)
    assert mine.known() is None
    assert mine.write(rows, batch(0, 0, 10)) == 10
    assert lake.frame().columns == ["id", "name"]
    assert lake.rows() == (10, 10)


def test_a_rehearsal_writes_nothing(lake: Lake) -> None:
    files = set(lake.folder.rglob("*"))
    rehearsal = lake.unclaimed(Writer("", "", "a rehearsal"), key=("id",))
    rehearsal.rehearse(numbers(lake.spark, 0, 10))
    twice = numbers(lake.spark, 0, 3).union(numbers(lake.spark, 0, 3))
    with pytest.raises(BadRows, match="Several rows"):
        rehearsal.rehearse(twice)
    rehearsal.close()
    assert set(lake.folder.rglob("*")) == files


def test_a_job_that_is_killed_before_sparks_commit_writes_each_row_once(lake: Lake) -> None:
    lake.append(numbers(lake.spark, 0, 0))
    naive = Lake(lake.kind, lake.spark, lake.folder)
    naive.create("naive")
    job = Job(lake, naive)
    assert job.run("one", "die")[0] == -signal.SIGKILL
    assert lake.rows() == naive.rows() == (20, 20)
    code, said = job.run("one")
    assert code == 0, said
    assert lake.rows() == (30, 30)
    assert naive.rows() == (40, 30), "an append without a ledger, in the same batches"
    # A new checkpoint that begins at the beginning.
    code, said = job.run("anew")
    assert code == 50, said
    assert "Overlap" in said
    assert lake.rows() == (30, 30)
