"""Releases in an object store: S3 and what speaks its protocol, Azure, Google."""

from __future__ import annotations

import contextlib
import errno
import json
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.lifecycle.errors import SpecError, StorageUnavailable, StreamError
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.releases.address import StorageAddress
from airflow_stream_provider.releases.place import RemotePlace, StorageConnection, manifest_of
from airflow_stream_provider.runtime.launcher import MANIFEST

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

_RIGHTS = "Give the credentials of `storage_connection` the right to list, read, write and delete there."
_CREDENTIALS = "Set `storage_connection`, or give Airflow's processes credentials in their environment."
_RULES = "Look at the rules of the bucket, such as for encryption and object lock."
_RETAINED = "retention keeps what is stored there"
_LATER = "It can be changed and removed when that has ended."
_NETWORK = "Check the endpoint and region in `storage_connection`, and the network."

# The text or class of an error; its meaning; what to do; whether a person has to change something first. The first that
# is found counts. A list that is refused is a GenericError, and only its text has the status.
_CAUSES = (
    ("169.254.169.254", "no credentials were found", _CREDENTIALS, True),
    ("metadata.google.internal", "no credentials were found", _CREDENTIALS, True),
    # Of Google (403) and Azure (409). S3's object lock keeps versions, and refuses neither to overwrite nor to delete.
    ("RetentionPolicyNotMet", _RETAINED, _LATER, False),
    ("retention policy", _RETAINED, _LATER, False),
    ("ObjectUnderActiveHold", _RETAINED, _LATER, False),
    ("BlobImmutableDueTo", _RETAINED, _LATER, False),
    ("Unauthenticated", "access is denied", _RIGHTS, True),
    ("PermissionDenied", "access is denied", _RIGHTS, True),
    ("status code: 401", "access is denied", _RIGHTS, True),
    ("status code: 403", "access is denied", _RIGHTS, True),
    ("status code: 404", "there is no such bucket or container", "Create it, or correct `storage`.", True),
    ("NotFound", "there is no such bucket or container", "Create it, or correct `storage`.", True),
    ("status code: 501", "it knows no conditional writes (If-None-Match)", "Use a store that does.", True),
    ("InvalidRequest", "it refuses the request as one that its rules forbid (InvalidRequest)", _RULES, True),
    ("status code: 400", "it refuses the request (400)", _NETWORK, False),
    ("dns error", "the name of its host is not known", _NETWORK, False),
    ("TimedOut", "it did not answer in time", _NETWORK, False),
    ("timed out", "it did not answer in time", _NETWORK, False),
    ("error sending request", "nothing answers at its endpoint", _NETWORK, False),
)


def is_retained(error: Exception) -> bool:
    """Return whether a store has refused to overwrite or remove an object because of a retention or a hold."""
    text = str(error)
    return any(found in text for found, means, *_ in _CAUSES if means == _RETAINED)


def explain(error: Exception, what: str) -> StreamError:
    """Return the error of ours for one of obstore's.

    :param what: the beginning of the sentence: what cannot be done.
    """
    text = f"{type(error).__name__} {error}"
    for found, means, next_step, is_wrong in _CAUSES:
        if found in text:
            kind = SpecError if is_wrong else StorageUnavailable
            return kind(f"{what}: {means}.", next_step=f"{next_step} See docs/storage.md.")
    return StorageUnavailable(f"{what} now ({type(error).__name__}).", next_step=_NETWORK)


# How long another publisher of the same release may need. Some stores list an object later than they refuse its twin.
PATIENCE_SECONDS = 10.0


class ObjectPlace(RemotePlace):
    """Releases as objects ``<hash>/<file>``; implements `ReleasePlace`.

    Objects are created and never replaced, the manifest last. Where a store ignores the condition (some that are like
    S3 do), two publishers of one release write the same bytes twice.

    :param store: an obstore that begins at the stream's releases.
    :param uploads: the same, with time enough to write a large file.
    """

    def __init__(self, store: ObjectStore, uploads: ObjectStore, url: str) -> None:
        super().__init__(url)
        self._store = store
        self._uploads = uploads

    def publish(self, release: Release, files: Mapping[str, bytes]) -> None:
        """Store a release; see `ReleasePlace.publish`."""
        manifest = manifest_of(release, files)
        known = MANIFEST in self._names(release.hash)
        if not known:
            for name, data in {**files, MANIFEST: manifest}.items():
                self._create(f"{release.hash}/{name}", data)
        self._verify_patiently(release)
        if known:
            self._freshen(f"{release.hash}/{MANIFEST}", manifest)

    def _freshen(self, key: str, data: bytes) -> None:
        """Write what is stored once more: the clean-up, which knows of no deployment of it yet, takes it for new.

        A store whose retention refuses that does not let it be removed either.
        """
        from obstore.exceptions import BaseError

        with self._explained("written"):
            try:
                _obstore().put(self._store, key, data, use_multipart=False)
            except BaseError as error:
                if not is_retained(error):
                    raise

    def _verify_patiently(self, release: Release) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                self.verify(release)
                return
            except (SpecError, StorageUnavailable):
                raise
            except StreamError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.5)

    def _listed(self, prefix: str) -> list[ObjectMeta]:
        with self._explained("read"):
            return [each for chunk in _obstore().list(self._store, prefix) for each in chunk]

    def _written(self) -> dict[str, float]:
        written: dict[str, float] = {}
        for each in self._listed(""):
            name = each["path"].partition("/")[0]
            written[name] = max(written.get(name, 0.0), each["last_modified"].timestamp())
        return written

    def _now(self, written: Mapping[str, float]) -> float:
        # Nothing is written to ask for the time, since retention would keep it.
        return max(written.values())

    def _names(self, hash: str) -> list[str]:
        return [each["path"].removeprefix(f"{hash}/") for each in self._listed(f"{hash}/")]

    def _remove(self, name: str) -> None:
        # The manifest first: no reader shall take a part of a release for the whole.
        keys = [f"{name}/{each}" for each in sorted(self._names(name), key=lambda each: each != MANIFEST)]
        for key in keys or [name]:
            # Some stores say so when another clean-up was faster.
            with self._explained("written"), contextlib.suppress(FileNotFoundError):
                _obstore().delete(self._store, key)

    def _read(self, path: str) -> bytes:
        with self._explained("read"), contextlib.suppress(FileNotFoundError):
            return bytes(_obstore().get(self._store, path).bytes())
        raise FileNotFoundError(errno.ENOENT, "it has gone since it was listed", path)

    def _create(self, key: str, data: bytes) -> None:
        from obstore.exceptions import AlreadyExistsError

        # Another process may be publishing the same contents; what it wrote is verified.
        with self._explained("written"), contextlib.suppress(AlreadyExistsError):
            _obstore().put(self._uploads, key, data, mode="create", use_multipart=False)

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        """Raise an error of ours in place of obstore's, whose text may hold a signed address."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, FileNotFoundError) as error:  # its own NotFoundError is not what obstore raises
            raise explain(error, f"The storage {self._url} cannot be {what}") from None


def _obstore() -> Any:
    import obstore

    return obstore


# Seconds. A store that does not answer must not hold a task for long: a read waits for each part of an answer. A write
# is answered when all of it is there: 256 MiB, the largest file of a release, by a slow link.
_CONNECT, _ANSWER, _REQUEST, _RETRY = 5, 30, 600, 20
# By scheme: the types of connections, and obstore's name for each of their fields that is used.
_FIELDS = {
    "s3a": (
        ("aws",),
        {
            "login": "access_key_id",
            "password": "secret_access_key",
            "aws_session_token": "session_token",
            "endpoint_url": "endpoint",
            "region": "region",
            "region_name": "region",
        },
    ),
    "abfss": (("wasb", "adls"), {"password": "account_key", "sas_token": "sas_key"}),
    "gs": (
        ("google_cloud_platform",),
        {"keyfile_dict": "service_account_key", "key_path": "service_account"},
    ),
}
_PRINCIPAL = {"login": "client_id", "password": "client_secret", "tenant_id": "tenant_id"}


def open_objects(address: StorageAddress, connection: StorageConnection | None, stream: str) -> ObjectPlace:
    """Return the place of a stream's releases in an object store; nothing is asked yet.

    :param connection: its credentials; None: those that obstore finds in the environment.
    :raises SpecError: the connection cannot be used, or obstore is not installed.
    """
    try:
        from obstore.store import from_url
    except ImportError:
        raise SpecError(
            f"obstore is not installed, and a storage {address.scheme}:// needs it.",
            next_step="Install airflow-stream-provider[object-stores] where Airflow's tasks run.",
        ) from None
    fields = {} if connection is None else _fields(address, connection)
    url = f"{address.url}/{stream}/releases"
    http = str(fields.get("endpoint", "")).startswith("http://")
    client = {"connect_timeout": f"{_CONNECT}s", "timeout": f"{_REQUEST}s", "allow_http": http}
    if address.scheme == "s3a":
        # A bucket with object lock and a default retention takes nothing without a checksum.
        fields["checksum_algorithm"] = "SHA256"

    def store(**timeouts: str) -> ObjectStore:
        options: dict[str, Any] = {
            "client_options": {**client, **timeouts},
            "retry_config": {"max_retries": 2, "retry_timeout": timedelta(seconds=_RETRY)},
        }
        return from_url(url, **options, **fields)

    try:
        reading, writing = store(read_timeout=f"{_ANSWER}s"), store()
    except Exception as error:  # noqa: BLE001 - obstore's own and ValueError, whose texts may hold what was given
        raise _refused(connection, f"obstore does not take its fields ({type(error).__name__})") from None
    return ObjectPlace(reading, writing, url)


def _fields(address: StorageAddress, connection: StorageConnection) -> dict[str, Any]:
    """Return obstore's settings for a connection; a setting that is not used here is refused, not passed over."""
    types, names = _FIELDS[address.scheme]
    if connection.conn_type not in types:
        wanted = " or ".join(types)
        raise _refused(connection, f"its type is {connection.conn_type!r}, and {address.scheme}:// needs {wanted}")
    extra = {name: value for name, value in connection.extra.items() if value not in (None, "", {}, [])}
    if address.scheme == "abfss" and extra.get("tenant_id"):
        if not (connection.login and connection.password):
            # obstore would go by what it finds in the environment.
            missing = "a client's id as login or its secret as password is missing"
            raise _refused(connection, f"its extra has tenant_id, and {missing}")
        extra.pop("sas_token", None)
        names = _PRINCIPAL
    unused = sorted(extra.keys() - (names.keys() - {"login", "password"}))
    if unused:
        raise _refused(connection, f"its extra has {', '.join(unused)}, which is not used for releases")
    if address.scheme == "s3a" and bool(connection.login) != bool(connection.password):
        raise _refused(connection, "it has only one of login and password")
    given = {"login": connection.login, "password": connection.password, **extra}
    if isinstance(given.get("keyfile_dict"), dict):
        given["keyfile_dict"] = json.dumps(given["keyfile_dict"])
    return {names[name]: given[name] for name in names if given.get(name)}


def _refused(connection: StorageConnection | None, found: str) -> SpecError:
    which = f"The Airflow connection {connection.conn_id!r}" if connection else "The storage"
    return SpecError(f"{which} cannot be used: {found}.", next_step="See docs/storage.md for its fields.")
