"""A real bucket and a real HDFS, if environment variables name them: the suites for a storage then run there, too."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

from airflow_stream_provider.releases.webhdfs import WEB_PORT
from devstack.s3 import S3Server

# The bucket, and the JSON of an Airflow connection of type aws with login, password and region_name.
S3_BUCKET, S3_CONNECTION = "AIRFLOW_STREAM_TEST_S3_BUCKET", "AIRFLOW_STREAM_TEST_S3_CONNECTION"
# A folder such as hdfs://namenode:8020/tmp, and the JSON of an Airflow connection of type webhdfs to one NameNode.
HDFS_FOLDER, HDFS_CONNECTION = "AIRFLOW_STREAM_TEST_HDFS_FOLDER", "AIRFLOW_STREAM_TEST_HDFS_CONNECTION"
PREFIX = f"airflow-stream-test-{secrets.token_hex(4)}"
"""All that a test writes there is below this, in the bucket or the folder."""


@dataclass(frozen=True)
class NameNode:
    """An HDFS on which tests write below one folder.

    :param url: of the NameNode for drivers, such as ``hdfs://namenode:8020``.
    :param connection: the fields of an Airflow connection of type webhdfs.
    :param folder: path of that folder; empty: all of HDFS.
    :param owner: the user who makes the folders there.
    """

    url: str
    connection: dict[str, Any]
    folder: str
    owner: str

    @property
    def client(self) -> Any:
        """The same files, past the product, by their owner."""
        from hdfs import InsecureClient

        return InsecureClient(f"http://{self.connection['host']}:{self.connection['port']}", user=self.owner)


def real_bucket() -> S3Server:
    """Return the real bucket; the test is skipped if there is none."""
    found = _connection(S3_BUCKET, S3_CONNECTION, "no real bucket")
    region = found["extra"]["region_name"]
    endpoint = found["extra"].get("endpoint_url", f"https://s3.{region}.amazonaws.com")
    return S3Server(endpoint, None, os.environ[S3_BUCKET], found["login"], found["password"], region)


def real_namenode() -> NameNode:
    """Return the real HDFS; the test is skipped if there is none."""
    found = {"port": WEB_PORT, **_connection(HDFS_FOLDER, HDFS_CONNECTION, "no real HDFS")}
    address = urlsplit(os.environ[HDFS_FOLDER])
    folder = f"{address.path.rstrip('/')}/{PREFIX}"
    return NameNode(f"{address.scheme}://{address.netloc}", found, folder, found["login"])


def _connection(place: str, connection: str, missing: str) -> dict[str, Any]:
    if place not in os.environ:
        pytest.skip(f"{place} and {connection} name {missing}")
    found: dict[str, Any] = json.loads(os.environ[connection])
    return found
