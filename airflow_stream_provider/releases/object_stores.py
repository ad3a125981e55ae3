"""Open an object store with the credentials of an Airflow connection, or with those of the environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.releases.address import StorageAddress
from airflow_stream_provider.releases.objects import ObjectPlace
from airflow_stream_provider.releases.place import StorageConnection

if TYPE_CHECKING:
    from obstore.store import ObjectStore

# Seconds. A store that does not answer must not hold a task for long: a read waits for each part of an answer. A write
# is answered when all of it is there: 256 MiB, the largest file of a release, by a slow link.
_CONNECT, _ANSWER, _REQUEST, _RETRY = 5, 30, 600, 20
_TYPES = {"s3a": ("aws",), "abfss": ("wasb", "adls"), "gs": ("google_cloud_platform",)}
_USED = {
    "s3a": {"endpoint_url", "region_name", "region", "aws_session_token"},
    "abfss": {"tenant_id", "sas_token"},
    "gs": {"keyfile_dict", "key_path"},
}


def open_objects(address: StorageAddress, connection: StorageConnection | None, stream: str) -> ObjectPlace:
    """Return the place of a stream's releases in an object store; nothing is asked yet.

    :param connection: its credentials; None: those that obstore finds in the environment.
    :raises SpecError: the connection cannot be used, or obstore is not installed.
    """
    try:
        from obstore.store import AzureStore, GCSStore, S3Store
    except ImportError:
        raise SpecError(
            f"obstore is not installed, and a storage {address.scheme}:// needs it.",
            next_step="Install airflow-stream-provider[object-stores] where Airflow's tasks run.",
        ) from None
    fields = {} if connection is None else _fields(address, connection)
    below = f"{address.path}/{stream}/releases".strip("/")
    http = str(fields.get("endpoint", "")).startswith("http://")
    client = {"connect_timeout": f"{_CONNECT}s", "timeout": f"{_REQUEST}s", "allow_http": http}

    def store(**timeouts: str) -> ObjectStore:
        options: dict[str, Any] = {
            "prefix": below,
            "client_options": {**client, **timeouts},
            "retry_config": {"max_retries": 2, "retry_timeout": timedelta(seconds=_RETRY)},
            **fields,
        }
        if address.scheme == "s3a":
            # A bucket with object lock and a default retention takes nothing without a checksum.
            return S3Store(address.authority, checksum_algorithm="SHA256", **options)
        if address.scheme == "gs":
            return GCSStore(address.authority, **options)
        container, _, host = address.authority.partition("@")
        return AzureStore(container, account_name=host.partition(".")[0], **options)

    try:
        reading, writing = store(read_timeout=f"{_ANSWER}s"), store()
    except Exception as error:  # noqa: BLE001 - obstore's own and ValueError, whose texts may hold what was given
        raise _refused(connection, f"obstore does not take its fields ({type(error).__name__})") from None
    return ObjectPlace(reading, writing, f"{address.scheme}://{address.authority}/{below}")


def _fields(address: StorageAddress, connection: StorageConnection) -> dict[str, Any]:
    """Return obstore's settings for a connection; a setting that is not used here is refused, not passed over."""
    if connection.conn_type not in _TYPES[address.scheme]:
        wanted = " or ".join(_TYPES[address.scheme])
        raise _refused(connection, f"its type is {connection.conn_type!r}, and {address.scheme}:// needs {wanted}")
    extra = {name: value for name, value in connection.extra.items() if value not in (None, "", {}, [])}
    unused = sorted(extra.keys() - _USED[address.scheme])
    if unused:
        raise _refused(connection, f"its extra has {', '.join(unused)}, which is not used for releases")
    if address.scheme == "s3a" and bool(connection.login) != bool(connection.password):
        raise _refused(connection, "it has only one of login and password")
    if address.scheme == "abfss" and extra.get("tenant_id") and not (connection.login and connection.password):
        # obstore would go by what it finds in the environment.
        missing = "a client's id as login or its secret as password is missing"
        raise _refused(connection, f"its extra has tenant_id, and {missing}")
    make = {"s3a": _s3, "abfss": _azure, "gs": _google}[address.scheme]
    return {name: value for name, value in make(connection, extra).items() if value}


def _s3(connection: StorageConnection, extra: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "access_key_id": connection.login,
        "secret_access_key": connection.password,
        "session_token": extra.get("aws_session_token"),
        "endpoint": extra.get("endpoint_url"),
        "region": extra.get("region_name") or extra.get("region"),
    }


def _azure(connection: StorageConnection, extra: Mapping[str, Any]) -> dict[str, Any]:
    if extra.get("tenant_id"):
        secret = {"client_id": connection.login, "client_secret": connection.password}
        return {**secret, "tenant_id": extra["tenant_id"]}
    return {"account_key": connection.password, "sas_key": extra.get("sas_token")}


def _google(connection: StorageConnection, extra: Mapping[str, Any]) -> dict[str, Any]:
    key = extra.get("keyfile_dict")
    text = json.dumps(key) if isinstance(key, dict) else key
    return {"service_account_key": text, "service_account": extra.get("key_path")}


def _refused(connection: StorageConnection | None, found: str) -> SpecError:
    which = f"The Airflow connection {connection.conn_id!r}" if connection else "The storage"
    return SpecError(f"{which} cannot be used: {found}.", next_step="See docs/storage.md for its fields.")
