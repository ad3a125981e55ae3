"""What Hadoop's file systems say of a file, in their own words; real ones are in tests/integration."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from airflow_stream_provider.checkpoint.files import FileFacts
from airflow_stream_provider.runtime.hadoop_files import LEFT_SECONDS, _parsed, left_behind

FIELDS = (
    "isDirectory=false; length=12; replication=1; blocksize=268435456; modification_time=1700000000000; "
    "access_time=0; owner=o; group=g; permission=rw-r--r--; isSymlink=false; hasAcl=false; isEncrypted=false; "
    "isErasureCoded=false}"
)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (f"FileStatus{{path=gs://bucket/cp/1; {FIELDS}", "/cp/1"),
        (f"HdfsNamedFileStatus{{path=hdfs://host:8020/cp/a b; {FIELDS}", "/cp/a b"),
        (f"S3AFileStatus{{path=s3a://bucket/cp/1; {FIELDS} isEmptyDirectory=FALSE eTag=e versionId=null", "/cp/1"),
        # No server for it runs here: as VersionedFileStatus.toString of hadoop-azure writes it.
        (
            f"VersionedFileStatus{{VersionedFileStatus{{path=abfss://c@a.dfs.core.windows.net/cp/1; {FIELDS}"
            "; version='0x8D'}",
            "/cp/1",
        ),
        (f"FileStatus{{path=hdfs://host/cp/x{{path=hdfs://host/y; {FIELDS}", "/cp/x{path=hdfs://host/y"),
        (
            f"FileStatus{{path=hdfs://host/x; isDirectory=true; modification_time=7; {FIELDS}",
            "/x; isDirectory=true; modification_time=7",
        ),
    ],
)
def test_the_status_of_each_file_system_is_understood(text: str, path: str) -> None:
    assert _parsed(text) == (PurePosixPath(path), FileFacts(12, 1700000000.0))


def test_another_text_is_an_error() -> None:
    with pytest.raises(OSError, match="in a way that is not known: FileStatus of x"):
        _parsed("FileStatus of x")


def test_only_what_killed_drivers_left_beside_this_folder_long_ago_is_removed() -> None:
    random = "0123456789abcdef" * 2
    left = [f"cp.probe-{random}", f".cp.probe-{random}.{random}", f".cp.owner.{random}"]
    others = ["cp", "cp.owner", "cp.rehearsal-orders-1.0000000a", f"xcp.probe-{random}", f".cp2.owner.{random}"]
    others += [f"cp.probe-{random}x", "cp.probe-1", f".cp.{random}", f"..cp.owner.{random}"]
    old = dict.fromkeys([*left, *others], 0.0)
    probe = f"cp.probe-{'a' * 32}"
    now = {probe: LEFT_SECONDS + 1}
    assert left_behind("cp", probe, old | now) == left
    assert left_behind("cp", probe, dict.fromkeys(left, 1.0) | now) == [], "somebody may still write them"
    assert left_behind("cp", probe, old) == [], "the time is not known"
    assert left_behind("c.p+", probe, old | now) == []
