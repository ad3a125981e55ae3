"""The errors of this package: one tree under StreamError."""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.lifecycle.texts import plain, redact


class StreamError(Exception):
    """Base of every error that this package raises; its text is redacted and plain (`texts`).

    :param message: what was found and what was expected, for a person.
    :param next_step: what that person should do; it ends the error's text.
    :param fields: the values behind the message, for programs.
    """

    def __init__(self, message: str, *, next_step: str = "", **fields: Any) -> None:
        self.message = plain(redact(message))
        self.next_step = plain(redact(next_step))
        self.fields = fields
        super().__init__(f"{self.message} {self.next_step}".strip())


class SpecError(StreamError):
    """Input from a person (YAML, form, connection, parameter) cannot be used; nothing that runs was touched."""


class ConnectionUnavailable(StreamError):
    """An Airflow connection cannot be read: it is not defined, or what keeps it does not answer now.

    Airflow does not tell which: a secrets backend or an API server that fails is to it one that has no such connection.
    """


class RuleBroken(StreamError):
    """The rules of the control log forbid this record; nothing was written. `fields["rule"]` names the rule."""


class StorageUnavailable(StreamError):
    """The storage of releases cannot be read or written now; nothing that runs was touched."""


class SeqTaken(StreamError):
    """Another writer appended this record number first: read the log and decide again."""


class ControlUnavailable(StreamError):
    """The control log cannot be read or written now, or it is unknown whether a write arrived."""


class ControlLogDamaged(ControlUnavailable):
    """The control log cannot be read whole, or is older than what is known of it: no process may act on a part of it.

    Everybody waits for it, as for one that is out of reach, until a person has restored it.
    """


class Damaged(StreamError):
    """A stored object cannot be what was written: torn, too large, not a regular file, or not of its form."""


class ControlLogReplaced(StreamError):
    """The stored log is not the one that was read before: it is shorter, or another one. Nothing may go on from it."""


class CheckpointError(StreamError):
    """A checkpoint cannot be read, belongs to another stream, or is being written by another job."""


class CheckpointBroken(CheckpointError):
    """A checkpoint lacks what a driver that starts on it needs, or has a damaged file: it has to be restored."""


class CheckpointAway(CheckpointError):
    """The storage of a checkpoint does not answer, or says that it cannot now: the same may go well later."""


class RehearsalRefused(StreamError):
    """The rehearsal refused the new release; the holder was not touched."""


class HandOverFailed(StreamError):
    """A hand-over, appointment or stop did not end as asked; the message says which deployment holds now."""


class ClusterError(StreamError):
    """The cluster refused, did not answer, or has no room; `fields` hold what is free and what was asked for."""


def says(error: BaseException) -> str:
    """Return the text of an error that people may read: that of a foreign one may hold secrets."""
    return str(error) if isinstance(error, StreamError) else f"{type(error).__name__}; see the task's log."
