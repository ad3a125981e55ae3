from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.spec.folder import nothing_known, salvage, salvage_name
from airflow_stream_provider.spec.requested_release import RequestedRelease
from airflow_stream_provider.spec.stream import WatchSpec
from tests.support.there import there

GOOD = """\
# The orders of the shop.
name: orders
application: apps/orders.py
version: "2"
cluster: spark_default
kafka: kafka_default
control: file:///data/streams
conf:
  # two cores
  spark.cores.max: 2
lag:
  max_records: 100
watch: {schedule: 5m,
  for_at_least: 30s}
notify:
- call: builtins.print
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('version: "2"', "version: ../2"),
        ("version:", "versoin:"),
        ("application: apps/orders.py\n", ""),
        ("version:", "version: ["),
        ("  spark.cores.max: 2", "  spark.cores.max: [2"),
        ("conf:", "conf: }"),
        ("conf:", "conf: &a"),
        ("version:", "version: '"),
        ("conf:", "name: again\nconf:"),
    ],
)
def test_a_fault_in_one_field_leaves_the_others(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "orders.yaml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new))
    spec = there(salvage(path, "It is wrong."))
    assert spec.name == ("again" if "again" in new else "orders")
    assert (spec.cluster, spec.kafka, spec.control) == ("spark_default", "kafka_default", "file:///data/streams")
    assert (spec.watch.schedule, spec.watch.for_at_least, spec.lag.max_records) == (300.0, 30.0, 100)
    assert [each.call for each in spec.notify] == ["builtins.print"]
    assert (spec.problem, spec.source) == ("It is wrong.", path)


def test_what_is_wrong_itself_has_its_default(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(GOOD.replace("max_records", "max_rows").replace("schedule: 5m", "schedule: often"))
    spec = there(salvage(path, "It is wrong."))
    assert (spec.lag.max_records, spec.watch) == (None, WatchSpec())
    assert spec.kafka == "kafka_default"


@pytest.mark.parametrize("line", ["name: ../orders", "name: [", "nmae: orders"])
def test_a_stream_without_its_name_has_that_of_the_file(tmp_path: Path, line: str) -> None:
    path = tmp_path / "payments.yaml"
    path.write_text(GOOD.replace("name: orders", line))
    assert there(salvage(path, "It is wrong.")).name == "payments"


def test_what_it_runs_is_read_as_well_but_can_never_be_published(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(GOOD.replace("kafka:", "kafak:"))
    spec = there(salvage(path, "It is wrong."))
    assert (spec.application, spec.version, dict(spec.conf)) == ("apps/orders.py", "2", {"spark.cores.max": "2"})
    with pytest.raises(SpecError, match="It is wrong"):
        RequestedRelease.of(spec, None, None, None, None).check()
    path.write_text(GOOD.replace('version: "2"', "version: ../2"))
    spec = there(salvage(path, "It is wrong."))
    assert (spec.application, spec.version) == ("apps/orders.py", "none")


@pytest.mark.parametrize(
    ("upgrade", "asks", "soak"),
    [
        ("upgrade: {soak: 5m}", False, 300),
        ("upgrade: {soak: 5m, approvel: true}", False, 300),
        ("upgrade: {soak: 5m, approval_timeout: soon}", False, 300),
        ("upgrade: {soak: 5m, approval: false, strategy: both}", False, 300),
        ("upgrade: {soka: 5m, approval: true}", True, 600),
        ("upgrade: {soak: 5m, approval: maybe}", True, 300),
        ("upgrade: {soak: 5m, approval: [", True, 600),
    ],
)
def test_an_upgrade_is_never_read_as_one_that_asks_nobody(
    tmp_path: Path, upgrade: str, asks: bool, soak: float
) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(f"{GOOD}{upgrade}\nversoin: 1\n")
    spec = there(salvage(path, "It is wrong."))
    assert (spec.upgrade.approval, spec.upgrade.soak) == (asks, soak)


@pytest.mark.parametrize(
    ("control", "storage", "left"),
    [
        ("file:///data/streams", "storage_connection: aws", (None, None)),
        ("file:///data/streams", "storage: [\nstorage_connection: aws", (None, None)),
        ("file:///data/streams", "storage: s3a://bucket/p\nstorage_connection: [", ("s3a://bucket/p", None)),
        ("file:///data/streams", "storage: hdfs://h/p\nstorage_connection: [", (None, None)),
        ("kafka://kafka_default/streams", "storage: [", (None, None)),
    ],
)
def test_fields_that_do_not_fit_each_other_are_left_out(
    tmp_path: Path, control: str, storage: str, left: tuple[str | None, str | None]
) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(GOOD.replace("file:///data/streams", control) + storage)
    spec = there(salvage(path, "It is wrong."))
    assert (spec.control, (spec.storage, spec.storage_connection)) == (control, left)


def test_of_a_file_that_cannot_be_read_at_all_only_the_name_is_known(tmp_path: Path) -> None:
    spec = nothing_known(tmp_path / "a b.yaml", "a-b", "It is wrong.")
    assert (spec.name, spec.control, spec.cluster, spec.storage) == ("a-b", "", "", None)
    assert (spec.problem, spec.upgrade.approval) == ("It is wrong.", True)


def test_without_a_cluster_it_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(GOOD.replace("cluster:", "clutser:"))
    assert there(salvage(path, "It is wrong.")).cluster == ""


@pytest.mark.parametrize("text", ["", "\0", "name: orders", GOOD.replace("file://", "s3://"), "control: [" * 30_000])
def test_without_its_control_folder_nothing_can_be_watched(tmp_path: Path, text: str) -> None:
    (tmp_path / "orders.yaml").write_text(text)
    assert salvage(tmp_path / "orders.yaml", "It is wrong.") is None


def test_a_file_that_is_gone_or_has_no_name_of_a_stream(tmp_path: Path) -> None:
    assert salvage(tmp_path / "gone.yaml", "It is wrong.") is None
    (tmp_path / "Not A Name.yaml").write_text(GOOD.replace("name: orders", "name: /7"))
    assert salvage(tmp_path / "Not A Name.yaml", "It is wrong.") is None


@pytest.mark.parametrize(
    ("file", "text", "name"),
    [
        ("orders.yaml", GOOD.replace("version:", "version: ["), "orders"),
        ("new.yaml", GOOD.replace("file:///", "s3://"), "orders"),
        ("new.yaml", GOOD.replace("name: orders", "name: ["), "new"),
        ("orders eu (2).yaml", "[", "orders-eu--2-"),
    ],
)
def test_the_dags_of_a_file_have_its_streams_name_if_that_can_be_read(
    tmp_path: Path, file: str, text: str, name: str
) -> None:
    path = tmp_path / file
    path.write_text(text)
    assert salvage_name(path) == name
    path.unlink()
    assert salvage_name(path) == re.sub("[ ()]", "-", path.stem)
