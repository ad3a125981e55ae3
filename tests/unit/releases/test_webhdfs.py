"""A DataNode that fails in the middle of a file, pretended: no real one can be made to. Real HDFS: integration."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from airflow_stream_provider.lifecycle.errors import SpecError, StorageUnavailable, StreamError
from airflow_stream_provider.releases.address import StorageAddress
from airflow_stream_provider.releases.place import StorageConnection
from airflow_stream_provider.releases.webhdfs import HdfsPlace, open_hdfs
from airflow_stream_provider.runtime.launcher import MANIFEST
from tests.support.pretended_webhdfs import PretendedWebHdfs, hdfs
from tests.support.releases import release_of

__all__ = ["hdfs"]
ADDRESS = StorageAddress.parse("hdfs://namenode:8020/streams")


def place_in(hdfs: PretendedWebHdfs) -> HdfsPlace:
    server = urlsplit(hdfs.url)
    connection = StorageConnection("hdfs_here", "webhdfs", str(server.hostname), server.port, "airflow")
    return open_hdfs(ADDRESS, connection, "orders")


def test_a_pretended_datanode_that_breaks_off_in_the_middle_of_a_file_is_away(
    hdfs: PretendedWebHdfs, tmp_path: Path
) -> None:
    release, files = release_of(tmp_path)
    folder = hdfs.folder / "streams" / "orders" / "releases" / release.hash
    folder.mkdir(parents=True)
    for name, data in {**files, MANIFEST: b"{}"}.items():
        (folder / name).write_bytes(data)
    place = place_in(hdfs)
    hdfs.breaks_off = True
    with pytest.raises(StorageUnavailable, match="cannot be read now: WebHDFS does not answer"):
        place.verify(release)


def test_a_pretended_namenode_that_asks_for_kerberos_is_refused_and_is_no_outage(
    hdfs: PretendedWebHdfs, tmp_path: Path
) -> None:
    release, files = release_of(tmp_path)
    place = place_in(hdfs)
    hdfs.wants_kerberos = True
    for act in (lambda: place.publish(release, files), lambda: place.clean_up(lambda idle: idle)):
        with pytest.raises(SpecError, match=r"this HDFS asks for Kerberos, .* not supported for releases") as refused:
            act()
        assert "Set `storage` to an object store" in refused.value.next_step


def test_requests_leave_no_lines_in_the_log_of_a_task(
    hdfs: PretendedWebHdfs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    release, _ = release_of(tmp_path)
    with caplog.at_level(logging.INFO):
        place = place_in(hdfs)
        with pytest.raises(StreamError):
            place.verify(release)
    assert not [each for each in caplog.records if each.name.startswith("hdfs") and each.levelno < logging.WARNING]


def test_without_its_library_a_storage_on_hdfs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs", None)
    connection = StorageConnection("hdfs_here", "webhdfs", "namenode", 9870, "airflow")
    with pytest.raises(SpecError, match=r"Install airflow-stream-provider\[hdfs\] where Airflow's tasks run"):
        open_hdfs(ADDRESS, connection, "orders")
