"""`airflow streams dossier` on a real control log with real waits; drivers and Kafka are played."""

from __future__ import annotations

import json
import time
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from airflow_stream_provider.cli import dossier
from airflow_stream_provider.cli.run_here import Exit
from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.control import open_log
from airflow_stream_provider.kafka import dead_letters
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, OffsetRange, QueryHealth, QueryProgress
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.skip import KafkaRecord, skipped
from tests.support import played_drivers
from tests.support.commands import Here
from tests.support.control_root import published
from tests.support.played_drivers import PlayedDrivers
from tests.support.snapshots import RUNNING
from tests.support.story import OLD, OLD_DEPLOYMENT, declared, record, write

READS = [{"name": "a", "kafka_sources": [{"option": "subscribe", "topics": "orders", "servers": ["k:9092"]}]}]
BAD = "orders-3@120"
HEALTH = QueryHealth("retrying", 70.0, 5, "ValueError: no number", "", 7, (OffsetRange("orders-3", "100", "250"),))


def standby(name: str, **rehearsal: Any) -> Record:
    deployment = deployment_of(name)
    return record("standby", deployment=deployment, incarnation=name, queries=READS, rehearsal=rehearsal)


class Letters:
    """A Kafka with records at the offsets from 100 to 249 of orders-3, and what was written to dead-letter topics."""

    written: ClassVar[list[tuple[str, int, str]]] = []
    down = False

    def __init__(self, conn_id: str, extra: Mapping[str, Any]) -> None:
        assert conn_id == "k"

    def read(self, wanted: Iterable[KafkaRecord]) -> list[Any]:
        found = []
        for each in wanted:
            if each[:2] != ("orders", 3) or not 100 <= each.offset < 250:
                raise SpecError(f"Kafka has no record {each.name}.")
            more = {"key": b"anna", "value": b'{"id": "x7"', "headers": [("h", b"1")], "timestamp": 1764000000000}
            found.append(SimpleNamespace(topic=each.topic, partition=each.partition, offset=each.offset, **more))
        return found

    def write(self, topic: str, records: Sequence[Any], stream: str, error: str) -> int:
        if self.down:
            raise StreamError("Kafka does not answer.")
        Letters.written += [(topic, each.offset, error) for each in records]
        return len(records)


class Exits(dict[str, DriverState]):
    """Drivers exit once their deployment has ended."""

    def __init__(self, here: Here) -> None:
        super().__init__(here.cluster.states)
        self._log = open_log(here.control, "orders")

    def get(self, submission: str, default: Any = None) -> Any:
        ended = {each.submission for each in self._log.refresh().deployments.values() if each.ended}
        return DriverState.FINISHED if submission in ended else super().get(submission, default)


@pytest.fixture
def fails(here: Here, monkeypatch: pytest.MonkeyPatch) -> Here:
    """The stream runs, and its query fails at batch 7."""
    yaml = here.folder / "orders.yaml"
    yaml.write_text(f"{yaml.read_text()}kafka: k\n")
    release = published(here.log, OLD_DEPLOYMENT)["release"]
    write(here.log, RUNNING[0], declared(OLD_DEPLOYMENT, "old", release=release), RUNNING[2])
    write(here.log, standby(OLD, skips=0), *RUNNING[4:])
    here.cluster.states = Exits(here)
    monkeypatch.setenv("AIRFLOW_CONN_K", "kafka://")
    monkeypatch.setattr(dossier, "kafka_extra", lambda conn_id: {})
    monkeypatch.setattr(dead_letters, "DeadLetters", Letters)
    monkeypatch.setattr(Letters, "written", [])
    return here


def call(here: Here, **given: Any) -> int:
    options = {"find": False, "skip": None, "take_back": None, "dead_letter": None, "reason": "bad", "yes": True}
    rest = {"json": False, "verbose": False, **given}
    with pytest.raises(SystemExit) as found:
        dossier.dossier(Namespace(name="orders", folder=str(here.folder), **{**options, **rest}))
    return int(found.value.code or 0)


def test_the_dossier_has_batch_offsets_and_error(fails: Here) -> None:
    fails.log.beat(OLD, Heartbeat(counter=1, at=time.time(), queries=(QueryProgress("a", health=HEALTH),)))
    assert call(fails) == 1
    said = fails.said()
    assert "a is retrying in batch 7: 5 failures in 1 min 10 s." in said.out + said.err
    assert "Error: ValueError: no number" in said.out + said.err
    assert "It reads orders-3 from 100 to 250 (150 offsets)." in said.out + said.err
    assert call(fails, json=True) == 1
    found = json.loads(fails.said().out)
    assert (found["failing"][0]["batch"], found["failing"][0]["offsets"], found["skipped"]) == (7, 150, [])


def test_a_search_brings_a_driver_up_that_never_holds_and_is_ended(
    fails: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = {"a": {"bad": [BAD], "batch": 7, "records": 150, "runs": 11, "error": "ValueError", "note": ""}}
    monkeypatch.setattr(played_drivers, "standby", lambda name: standby(name, skips=0, queries=queries))
    with PlayedDrivers(fails.control):
        assert call(fails, find=True, json=True) == Exit.DONE
    said = json.loads(fails.said().out)
    assert said["queries"] == queries
    assert said["records"] == [
        {
            "record": BAD,
            "timestamp": 1764000000000,
            "key_bytes": 4,
            "value_bytes": 11,
            "value_shape": '{"xx": "x9"',
            "headers": ["h"],
        }
    ]
    state = fails.log.refresh()
    looked = list(state.deployments.values())[-1]
    assert (looked.policy.find, looked.release) == (True, state.deployments[OLD_DEPLOYMENT].release)
    assert looked.ended is not None
    assert state.holder == OLD
    assert skipped(state) == ()


def test_a_record_is_copied_and_then_left_out_by_a_new_driver(fails: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(played_drivers, "standby", lambda name: standby(name, skips=1))
    with PlayedDrivers(fails.control):
        assert call(fails, skip=[BAD], dead_letter="orders-dead") == Exit.DONE
    assert "Done: Leave out orders-3@120. 1 record copied." in fails.said().out
    assert [each[:2] for each in Letters.written] == [("orders-dead", 120)]
    state = fails.log.refresh()
    assert skipped(state) == (f"{BAD}@1764000000000",)
    assert state.holding_deployment is not None
    assert state.holding_deployment.policy.skip == skipped(state)
    assert state.wish is not None
    assert state.wish.reason == "Leave out orders-3@120. bad"
    assert state.wish.by.startswith("person:")

    monkeypatch.setattr(played_drivers, "standby", lambda name: standby(name, skips=0))
    with PlayedDrivers(fails.control):
        assert call(fails, take_back=[BAD]) == Exit.DONE
    assert skipped(fails.log.refresh()) == ()


def test_nothing_is_wished_where_the_copy_fails_or_a_name_is_wrong(
    fails: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = len(fails.log.records())
    assert call(fails, skip=["orders-3@7"]) == Exit.REFUSED
    assert call(fails, skip=["others-3@120"]) == Exit.REFUSED
    assert call(fails, skip=[BAD], dead_letter="orders") == Exit.REFUSED
    assert call(fails, take_back=[BAD]) == Exit.REFUSED
    assert call(fails, skip=[BAD], reason=None) == Exit.REFUSED
    assert call(fails, skip=[BAD], yes=False) == Exit.REFUSED
    monkeypatch.setattr(Letters, "down", True)
    assert call(fails, skip=[BAD], dead_letter="orders-dead") == Exit.UNKNOWN
    assert len(fails.log.records()) == records
    said = fails.said().err
    for part in ("Kafka has no record orders-3@7", "does not read others", "reads orders itself", "is not left out"):
        assert part in said


def test_a_runtime_that_knows_no_list_is_not_asked(here: Here) -> None:
    write(here.log, *RUNNING)
    assert call(here, skip=[BAD]) == Exit.REFUSED
    assert call(here, find=True) == Exit.REFUSED
    assert "is older than this command" in here.said().err
    assert len(here.log.records()) == len(RUNNING)


def test_a_driver_that_does_not_leave_them_out_is_told(fails: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(played_drivers, "standby", lambda name: standby(name))
    with PlayedDrivers(fails.control):
        assert call(fails, skip=[BAD]) == Exit.FAILED
    assert "The driver does not leave them out." in fails.said().err
