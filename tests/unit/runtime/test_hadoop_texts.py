"""What Hadoop's file systems say of files, in their own words; real ones are in tests/integration."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from airflow_stream_provider.checkpoint.files import FileFacts
from airflow_stream_provider.runtime.hadoop_texts import parsed_status

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
        (f"HdfsNamedFileStatus{{path=viewfs:/cp/a b; {FIELDS}", "/cp/a b"),
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
    assert parsed_status(text) == (PurePosixPath(path), FileFacts(12, 1700000000.0))


def test_the_status_of_a_folder_in_an_encryption_zone_says_so() -> None:
    """As HDFS of Hadoop 3.4.1 has written it."""
    text = (
        "HdfsLocatedFileStatus{path=hdfs://host:8020/cps/orders; isDirectory=true; modification_time=1700000000000; "
        "access_time=0; owner=root; group=supergroup; permission=rwxr-xr-x; isSymlink=false; hasAcl=false; "
        "isEncrypted=true; isErasureCoded=false}"
    )
    assert parsed_status(text)[1] == FileFacts(0, 1700000000.0, is_folder=True, is_encrypted=True)


def test_another_text_is_an_error() -> None:
    with pytest.raises(OSError, match="in a way that is not known: FileStatus of x"):
        parsed_status("FileStatus of x")
