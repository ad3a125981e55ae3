"""Which fields of an Airflow connection are used for an object store, and which are refused."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.releases.address import StorageAddress
from airflow_stream_provider.releases.objects import ObjectPlace, _fields, open_objects
from airflow_stream_provider.releases.place import StorageConnection
from airflow_stream_provider.runtime.launcher import MANIFEST
from tests.support.locked_bucket import BUCKET, locked_bucket
from tests.support.releases import connection_of, release_of

S3 = StorageAddress.parse("s3://streams/team")
AZURE = StorageAddress.parse("abfss://streams@account.dfs.core.windows.net/team")
GOOGLE = StorageAddress.parse("gs://streams/team")
PAGE = Path(__file__).parents[3] / "docs" / "storage.md"


def connection(conn_type: str, **fields: Any) -> StorageConnection:
    return StorageConnection("storage", conn_type, **fields)


def test_the_fields_of_s3() -> None:
    extra = {"endpoint_url": "http://here:9000", "region_name": "eu", "aws_session_token": "t", "verify": None}
    fields = _fields(S3, connection("aws", login="key", password="secret", extra=extra))
    assert fields == {
        "access_key_id": "key",
        "secret_access_key": "secret",
        "session_token": "t",
        "endpoint": "http://here:9000",
        "region": "eu",
    }
    assert _fields(S3, connection("aws")) == {}, "those of the environment"


def test_the_fields_of_azure_and_google() -> None:
    assert _fields(AZURE, connection("wasb", login="account", password="key")) == {"account_key": "key"}
    assert _fields(AZURE, connection("wasb", extra={"sas_token": "sas"})) == {"sas_key": "sas"}
    principal = connection("adls", login="id", password="secret", extra={"tenant_id": "tenant"})
    assert _fields(AZURE, principal) == {"client_id": "id", "client_secret": "secret", "tenant_id": "tenant"}
    key = {"type": "service_account"}
    found = _fields(GOOGLE, connection("google_cloud_platform", extra={"keyfile_dict": key}))
    assert json.loads(found["service_account_key"]) == key
    path = connection("google_cloud_platform", extra={"key_path": "/k.json"})
    assert _fields(GOOGLE, path) == {"service_account": "/k.json"}


@pytest.mark.parametrize(
    ("storage", "given", "says"),
    [
        (S3, connection("http"), "its type is 'http', and s3a:// needs aws"),
        (AZURE, connection("aws"), "its type is 'aws', and abfss:// needs wasb or adls"),
        (S3, connection("aws", login="key"), "it has only one of login and password"),
        (S3, connection("aws", password="hidden"), "it has only one of login and password"),
        (AZURE, connection("adls", login="id", extra={"tenant_id": "hidden"}), "its secret as password is missing"),
        (AZURE, connection("adls", password="hidden", extra={"tenant_id": "t"}), "a client's id as login or its"),
        (S3, connection("aws", extra={"role_arn": "hidden"}), "its extra has role_arn, which is not used"),
    ],
)
def test_what_is_not_used_is_refused_and_not_shown(
    storage: StorageAddress, given: StorageConnection, says: str
) -> None:
    with pytest.raises(SpecError, match="The Airflow connection 'storage' cannot be used") as refused:
        open_objects(storage, given, "orders")
    assert says in str(refused.value)
    assert "hidden" not in f"{refused.value!r} {given!r}"


@pytest.mark.parametrize("storage", [S3, AZURE])
def test_a_store_is_opened_without_asking_it(storage: StorageAddress) -> None:
    assert isinstance(open_objects(storage, None, "orders"), ObjectPlace)


def test_a_pretended_bucket_with_object_lock_and_retention_takes_releases(tmp_path: Path) -> None:
    """Found by a review: without a checksum it refuses every object, and that looked like an outage."""
    with locked_bucket() as bucket:
        place = open_objects(StorageAddress.parse(f"s3://{BUCKET}/team"), connection_of(bucket.connection), "orders")
        release, files = release_of(tmp_path)
        place.publish(release, files)
        place.publish(release, files)
        assert set(bucket.objects) == {f"team/orders/releases/{release.hash}/{name}" for name in (*files, MANIFEST)}
        bucket.is_strict = True
        with pytest.raises(SpecError, match=r"one that its rules forbid \(InvalidRequest\)") as refused:
            place.publish(release, files)
        assert "rules of the bucket" in refused.value.next_step


CONNECTIONS = re.findall(r"^airflow connections add ((?:.*\\\n)*.*)$", PAGE.read_text(), re.M)
OBJECTS = [command for command in CONNECTIONS if "--conn-type aws" in command]


@pytest.mark.parametrize("command", OBJECTS)
def test_the_connections_in_the_docs_can_be_used(command: str) -> None:
    words = shlex.split(command.replace("\\\n", " "))
    options = dict(zip(words[1::2], words[2::2], strict=True))
    given = connection(
        options["--conn-type"],
        login=options["--conn-login"],
        password=options["--conn-password"],
        extra=json.loads(options["--conn-extra"]),
    )
    assert set(_fields(S3, given)) == {"access_key_id", "secret_access_key", "endpoint", "region"}
    assert isinstance(open_objects(S3, given, "orders"), ObjectPlace)
