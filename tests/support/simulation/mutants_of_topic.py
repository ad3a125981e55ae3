"""Faults in the control log in a topic, one each."""

from __future__ import annotations

import pytest

from airflow_stream_provider.control import log, topic_index, topic_store
from airflow_stream_provider.control.owners import TopicOwners
from airflow_stream_provider.control.topic_index import ReadTo, TopicIndex
from airflow_stream_provider.control.topic_reader import TopicReader
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.lifecycle.record import Record
from tests.support.simulation.mutants import Mutants
from tests.support.simulation.topic_client import TopicClient

MUTANTS = Mutants()


@MUTANTS.found_as("whole-log", "one-log")
def a_gap_is_taken_for_a_loser(patch: pytest.MonkeyPatch) -> None:
    """A record whose number is too large proves a loss; that each record names the one before it finds it as well."""
    check, record = TopicIndex._check, TopicIndex._record

    def whatever_they_had_read(self: TopicIndex, theirs: ReadTo) -> bool:
        return theirs.seq > self.read_to.seq or check(self, theirs)

    def as_the_next(self: TopicIndex, seq: int, offset: int, value: bytes) -> int | None:
        return record(self, min(seq, self.read_to.seq + 1), offset, value)

    patch.setattr(TopicIndex, "_check", whatever_they_had_read)
    patch.setattr(TopicIndex, "_record", as_the_next)
    patch.setattr(log, "check_chain", lambda stream, nonce, records: None)


@MUTANTS.found_as("one-log")
def the_id_of_the_topic_is_not_asked_for(patch: pytest.MonkeyPatch) -> None:
    """A client that reads by name goes on in a topic that was made anew."""
    patch.setattr(TopicClient, "check_same", lambda self: None)


@MUTANTS.found_as("no-false-alarm", "legal", "one-holder", "whole-log", "known-writer", "no-surprise")
def a_late_record_is_believed(patch: pytest.MonkeyPatch) -> None:
    """Of two records with one number the last counts."""
    record = TopicIndex._record

    def last_wins(self: TopicIndex, seq: int, offset: int, value: bytes) -> int | None:
        if seq == self.read_to.seq:
            nonce = Record.read(value, seq).nonce
            self.offsets[seq], self.nonces[seq] = offset, nonce
            self.read_to = ReadTo(seq, nonce, self.read_to.first)
            return seq
        return record(self, seq, offset, value)

    patch.setattr(TopicIndex, "_record", last_wins)


@MUTANTS.found_as("no-false-alarm", "legal", "one-holder", "known-writer", "no-surprise", "one-writer")
def a_record_counts_once_it_is_acknowledged(patch: pytest.MonkeyPatch) -> None:
    """The writer does not read who was first."""

    def acknowledged(self: TopicStore, seq: int, data: bytes) -> None:
        with self._lock:
            self._write(topic_index.record_key(seq), data)

    patch.setattr(TopicStore, "create", acknowledged)


@MUTANTS.found_as("beat-is-a-barrier")
def a_lease_is_renewed_behind_an_unread_record(patch: pytest.MonkeyPatch) -> None:
    put = TopicStore.put_heartbeat

    def whatever_was_read(self: TopicStore, incarnation: str, data: bytes) -> None:
        self._told = None
        put(self, incarnation, data)

    patch.setattr(TopicStore, "put_heartbeat", whatever_was_read)


@MUTANTS.found_as("beat-is-a-barrier")
def a_heartbeat_is_no_barrier(patch: pytest.MonkeyPatch) -> None:
    """It is written, and the topic is not read as far as that."""

    def only_written(self: TopicStore, incarnation: str, data: bytes) -> None:
        with self._lock:
            self._beats_sent += 1
            count = {topic_index.COUNT: str(self._beats_sent).encode()}
            self._write(topic_index.heartbeat_key(incarnation), data, {**count, **self._indexed()})

    patch.setattr(TopicStore, "put_heartbeat", only_written)


@MUTANTS.found_as("no-false-alarm", "no-surprise", "legal", "whole-log")
def records_share_a_key(patch: pytest.MonkeyPatch) -> None:
    """Compaction keeps the last of those that were written for one number: a loser."""
    patch.setattr(topic_store, "record_key", lambda seq: f"{topic_index.RECORD}/{seq}/{'0' * 32}")


@MUTANTS.found_as("beat-is-a-barrier", "no-surprise", "legal", "no-false-alarm")
def a_broker_that_lags_is_believed(patch: pytest.MonkeyPatch) -> None:
    """What it shows is taken for all that there is, though the message that was written is not in it."""
    patch.setattr(TopicReader, "read_to", lambda self, offset: self.read_to_end())


@MUTANTS.found_as("one-owner")
def the_last_claim_counts(patch: pytest.MonkeyPatch) -> None:
    owner = TopicOwners._owner

    def last(self: TopicOwners, location: str) -> str | None:
        self._claims = {where: dict(reversed(claims.items())) for where, claims in self._claims.items()}
        return owner(self, location)

    patch.setattr(TopicOwners, "_owner", last)


@MUTANTS.found_as("one-owner")
def a_claim_counts_once_it_is_written(patch: pytest.MonkeyPatch) -> None:
    def unread(self: TopicOwners, location: str, stream: str) -> str:
        found = self.owner(location)
        if found is None:
            key = f"owner/{'0' * 64}/{'0' * 32}"
            self._opened().write(key.encode(), b"", {})
        return found or stream

    patch.setattr(TopicOwners, "claim", unread)
