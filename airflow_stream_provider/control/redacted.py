"""Redact the records of a control log: more people read it than a driver's log."""

from __future__ import annotations

from dataclasses import replace

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.secrets import redact, redact_within

# The fields of records that quote what a script, Spark or a person said. The parts of a release must stay as they are:
# its hash is over them, and they were checked before.
_SAID = ("reason", "error", "evidence", "rehearsal")


def redacted_record(record: Record) -> Record:
    """Return the record without secrets in what it quotes."""
    fields = {name: redact_within(value) if name in _SAID else value for name, value in record.fields.items()}
    return replace(record, fields=fields)


def redacted_heartbeat(heartbeat: Heartbeat) -> Heartbeat:
    """Return the heartbeat without secrets in what it quotes."""
    return replace(
        heartbeat,
        message=redact(heartbeat.message),
        rewind=redact(heartbeat.rewind),
        rehearsal=redact_within(heartbeat.rehearsal),
        offsets_group=replace(heartbeat.offsets_group, problem=redact(heartbeat.offsets_group.problem)),
    )
