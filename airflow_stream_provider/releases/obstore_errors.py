"""Say in one sentence what an object store has refused, without its text: that may hold a signed address."""

from __future__ import annotations

from airflow_stream_provider.lifecycle.errors import SpecError, StorageUnavailable, StreamError

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
