"""The errors of this package: one small tree, each saying what was found, what was expected and what to do."""

from __future__ import annotations

from typing import Any


class StreamError(Exception):
    """Base of every error raised here.

    The message is one sentence of what was found and expected; `todo` is the next step for the person who
    reads it; the remaining fields are the values behind the sentence, for programs.
    """

    def __init__(self, message: str, *, next_step: str = "", **fields: Any) -> None:
        self.message = message
        self.next_step = next_step
        self.fields = fields
        super().__init__(f"{message} {next_step}".strip())


class SpecError(StreamError):
    """What a person wrote (YAML, form, connection) cannot be used; nothing was touched."""


class RuleBroken(StreamError):
    """An append that the rules of the control log forbid; `fields["rule"]` names the rule."""


class SeqTaken(StreamError):
    """Somebody else wrote this number of the control log first: read it and decide again."""


class ControlUnavailable(StreamError):
    """The control log cannot be read or written now, or whether a write arrived is not known."""


class CheckpointError(StreamError):
    """A checkpoint that cannot be read, belongs to another stream, or is written by somebody else."""


class RehearsalRefused(StreamError):
    """The rehearsal found that the new release cannot take over; the holder was not touched."""


class HandOverFailed(StreamError):
    """A request ended in another way than with the new holder running; the message says who holds now."""


class ClusterError(StreamError):
    """The cluster refused, did not answer, or has no room; `fields` say what it has and what was asked."""
