"""The URL of a storage is checked before anything is touched, and shows nothing that could be a password."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.ids import STREAM
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.releases.address import StorageAddress
from airflow_stream_provider.releases.open_place import address_of, open_place
from airflow_stream_provider.spec.stream import load_spec

GOOD = """\
name: orders
application: apps/orders.py
version: "2.1.0"
cluster: spark_default
control: file:///data/streams
"""


def write(folder: Path, *lines: str) -> Path:
    path = folder / "streams" / "orders.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(GOOD + "".join(f"{line}\n" for line in lines))
    return path


def test_without_storage_releases_are_in_the_control_folder(tmp_path: Path) -> None:
    spec = load_spec(write(tmp_path))
    assert (spec.storage, spec.storage_connection) == (None, None)


def test_a_control_folder_with_a_comma_is_refused_with_the_yaml(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_text(path.read_text().replace("/data/streams", "/data/a,b"))
    with pytest.raises(SpecError, match=r"orders\.yaml.*has a comma in its path"):
        load_spec(path)


def test_a_control_log_in_kafka_needs_a_storage_beside_it(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_text(re.sub("^control:.*$", "control: kafka://kafka_default/streams", path.read_text(), flags=re.M))
    with pytest.raises(SpecError, match="control is in Kafka, and storage is not set: releases need a place"):
        load_spec(path)
    path.write_text(f"{path.read_text()}storage: file:///data/releases\n")
    assert load_spec(path).control == "kafka://kafka_default/streams"


def test_a_release_without_storage_has_no_place_beside_a_control_log_in_kafka() -> None:
    for find in (
        lambda: address_of(Release("1", "a" * 64, application="a.py"), "orders", None),
        lambda: open_place("", None, "orders", None),
    ):
        with pytest.raises(SpecError, match="is in Kafka, and `storage` is not set"):
            find()


def test_a_folder_of_its_own_is_read(tmp_path: Path) -> None:
    assert load_spec(write(tmp_path, "storage: file:///data/releases/")).storage == "file:///data/releases/"
    assert StorageAddress.parse("file:///data/releases/").url == "file:///data/releases"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://host/x", "begins with ftp://"),
        ("data/releases", "is not a URL"),
        ("file:data/releases", "is not file:///an/absolute/folder"),
        ("file://host/data", "is not file:///an/absolute/folder"),
        ("file:///", "is not file:///an/absolute/folder"),
        ("file:///a?sig=hidden", "has a query or a fragment"),
        ("file:///a,b", "has a comma in its path, which separates the files in Spark's lists"),
        ("file:///a%2Cb", "has a comma in its path"),
        ("file:///a%00b", "is not file:///an/absolute/folder"),
        ("http://[", "is not a URL"),
    ],
)
def test_what_is_no_storage_is_refused(tmp_path: Path, url: str, says: str) -> None:
    with pytest.raises(SpecError, match=r"orders\.yaml") as refused:
        load_spec(write(tmp_path, f"storage: '{url}'"))
    assert says in str(refused.value)
    assert "file:///a/folder" in str(refused.value)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("lines", [["storage_connection: s3"], ["storage: file:///a", "storage_connection: s3"]])
def test_a_connection_that_nothing_needs_is_refused(tmp_path: Path, lines: list[str]) -> None:
    with pytest.raises(SpecError, match="storage_connection is set, but a folder needs none"):
        load_spec(write(tmp_path, *lines))


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("s3://bucket", "s3a://bucket"),
        ("s3a://my-bucket/team/a/", "s3a://my-bucket/team/a"),
        ("gs://my_bucket/team", "gs://my_bucket/team"),
        ("hdfs://namenode:8020/streams/", "hdfs://namenode:8020/streams"),
        ("hdfs://cluster/streams", "hdfs://cluster/streams"),
        ("abfss://streams@account.dfs.core.windows.net/team", "abfss://streams@account.dfs.core.windows.net/team"),
    ],
)
def test_a_storage_is_written_in_one_form(tmp_path: Path, url: str, canonical: str) -> None:
    spec = load_spec(write(tmp_path, f"storage: {url}", "storage_connection: storage"))
    assert spec.storage_connection == "storage"
    assert StorageAddress.parse(str(spec.storage)).url == canonical
    assert StorageAddress.parse(canonical) == StorageAddress.parse(url)


@pytest.mark.parametrize("url", ["file:///data/releases", "s3a://bucket", "s3a://bucket/team", "hdfs://nn:8020/a"])
def test_each_control_log_has_a_part_of_its_own(url: str) -> None:
    storage = StorageAddress.parse(url)
    parts = [storage.of_log(control, log) for control in ("file:///a", "file:///b") for log in ("1a", "2b")]
    assert len({part.url for part in parts}) == len(parts)
    for part in parts:
        # As a record has it, and as a driver puts it together.
        assert StorageAddress.parse(part.url) == part
        assert part.whole == storage
        below, name = part.url.rsplit("/", 1)
        assert below == url
        assert not STREAM.fullmatch(name), "it could be the folder of a stream"
    assert storage.of_log("file:///a", "1a") == parts[0]
    assert storage.whole == storage


def test_nothing_of_a_control_log_gets_into_a_path() -> None:
    storage = StorageAddress.parse("s3a://bucket/team")
    part = storage.of_log("kafka://a/../b", "../$(reboot)\0")
    assert StorageAddress.parse(part.url) == part


@pytest.mark.parametrize(
    "url",
    [
        "s3a://user:hidden@bucket/x",
        "s3a://BUCKET/x",
        "s3a:///x",
        "s3a://bucket/../x",
        "s3a://bucket/a,b",
        "s3a://bucket/a b",
        "s3a://bucket/a%2e%2e/b",
        "s3a://bucket//x",
        "gs://bucket/x?sig=hidden",
        "abfss://streams:hidden@account.dfs.core.windows.net/x",
        "abfss://account.dfs.core.windows.net/x",
        # Airflow would ask for the account of this name in another cloud.
        "abfss://streams@account.dfs.core.chinacloudapi.cn/x",
        "abfss://c@account.evil.example/x",
        "hdfs://user:hidden@namenode/x",
        "hdfs:///x",
    ],
)
def test_a_url_that_leads_elsewhere_is_refused_and_not_shown(tmp_path: Path, url: str) -> None:
    with pytest.raises(SpecError, match="The URL of the storage") as refused:
        load_spec(write(tmp_path, f"storage: '{url}'"))
    assert "hidden" not in str(refused.value)


def test_hdfs_needs_the_connection_of_webhdfs(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="name the connection of WebHDFS"):
        load_spec(write(tmp_path, "storage: hdfs://namenode:8020/streams"))
