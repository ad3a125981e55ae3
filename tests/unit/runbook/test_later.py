"""The end of an upgrade run: when the old release is retired, and what is reported of how the run ended."""

from __future__ import annotations

import contextlib
import json
import re
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.rewind import WantedRewind
from airflow_stream_provider.runbook.later import ReportUpgradeOperator, RetireLaterOperator
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.control_root import log_of, new_log
from tests.support.snapshots import BOTH, RUNNING, UPGRADED
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    acquired,
    declared,
    failed,
    ready,
    released,
    requested,
    standby,
)
from tests.support.tasks import context, run, spec_in

BACK = [*UPGRADED, requested("b", OLD), ready("b", OLD), released(NEW, "b", OLD), acquired(OLD, "b", 3)]


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    return spec_in(tmp_path)


def report(spec: StreamSpec, records: list[Record], soaked: str = "", fault: str = "") -> Any:
    log_of(spec.control, *records)
    return run(ReportUpgradeOperator(task_id="t", stream=spec, family="new", soaked=soaked, fault=fault))


@pytest.mark.parametrize("soaked", ["good", "superseded"])
def test_a_run_that_passed_its_soak_says_who_holds(spec: StreamSpec, soaked: str) -> None:
    assert report(spec, UPGRADED, soaked) == {
        "stream": "orders",
        "deployment": NEW_DEPLOYMENT,
        "version": "1",
        "holder": NEW_DEPLOYMENT,
        "result": soaked,
    }


@pytest.mark.parametrize(
    ("records", "fault", "says"),
    [
        (RUNNING, "", "Nothing was submitted; the task that failed says why"),
        (BOTH, "", "Release 1 did not take over"),
        ([*BOTH, failed(NEW)], "", "Release 1 was refused: it broke"),
        (UPGRADED, "It is behind.", r"Release 1 took over and still holds\. It is behind\."),
        (UPGRADED, "", r"Release 1 took over and still holds\. No fault was found, but it did not pass its soak\."),
        (BACK, "It is behind.", r"Release 1 took over and did not stay\. It is behind\. Rolled back"),
    ],
)
def test_any_other_end_fails_and_says_who_holds(spec: StreamSpec, records: list[Record], fault: str, says: str) -> None:
    holder = NEW_DEPLOYMENT if records is UPGRADED else OLD_DEPLOYMENT
    with pytest.raises(AirflowFailException, match=rf"{says}.* {holder} \(release 1\) holds the stream"):
        report(spec, records, fault=fault)


def test_a_bad_release_that_the_watch_started_again_was_not_rolled_back(spec: StreamSpec) -> None:
    again, driver = "orders-2-cccc", "orders-2-cccc.0000000c"
    release = declared(NEW_DEPLOYMENT)["release"]
    back = declared(again, "new", release=release, again=NEW_DEPLOYMENT)
    story = [*UPGRADED, failed(NEW), back, standby(driver), requested("w", driver), ready("w", driver)]
    with pytest.raises(AirflowFailException) as told:
        report(spec, [*story, acquired(driver, "w", 3)], fault="It failed.")
    assert f"Release 1 took over and holds as {again}. It failed. {again}" in str(told.value)


def test_what_nobody_runs_was_not_rolled_back(spec: StreamSpec) -> None:
    with pytest.raises(AirflowFailException) as told:
        report(spec, [*UPGRADED, failed(NEW)], fault="It failed.")
    assert "did not stay. It failed. Nobody holds the stream (it is failed)" in str(told.value)
    assert "Rolled back" not in str(told.value)


def later(spec: StreamSpec, monkeypatch: pytest.MonkeyPatch, **upgrade: float) -> RetireLaterOperator:
    """Retire OLD later; what Airflow's own operator does with it is Airflow's."""
    monkeypatch.setattr(TriggerDagRunOperator, "execute", lambda self, context: None)
    spec = spec.model_copy(update={"upgrade": spec.upgrade.model_copy(update=upgrade)})
    return RetireLaterOperator(task_id="t", stream=spec, previous=OLD_DEPLOYMENT, trigger_dag_id="orders__retire")


@pytest.mark.parametrize(("keep", "soak", "left"), [(3600.0, 600.0, 3000.0), (600.0, 600.0, 0.0), (60.0, 600.0, 0.0)])
def test_the_old_release_is_kept_from_the_hand_over_on_so_the_soak_counts(
    spec: StreamSpec, monkeypatch: pytest.MonkeyPatch, keep: float, soak: float, left: float
) -> None:
    operator = later(spec, monkeypatch, keep_previous=keep, soak=soak)
    before = time.time()
    operator.execute(context())
    assert operator.conf == {"deployment": OLD_DEPLOYMENT}
    assert isinstance(operator.run_after, datetime)
    assert before + left <= operator.run_after.timestamp() <= time.time() + left


def test_without_a_release_before_there_is_nothing_to_retire(spec: StreamSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = later(spec, monkeypatch)
    operator.previous = ""
    with pytest.raises(AirflowSkipException, match="No release ran before this one"):
        operator.execute(context())


def line(spec: StreamSpec, records: list[Record], family: str = "new", **arguments: Any) -> str:
    """What the report leaves in a line."""
    log_of(spec.control, *records)
    pushed: dict[str, Any] = {}
    task = ReportUpgradeOperator(
        task_id="t",
        stream=spec,
        family=family,
        **{"soaked": "", "fault": "", **arguments},
    )
    with contextlib.suppress(AirflowFailException):
        task.execute(context(pushed))
    return str(pushed["line"])


HANDED = {"request": "mine", "previous": OLD_DEPLOYMENT, "boundary": "completed", "gap_seconds": {"a": 0.5}}


def test_it_leaves_in_a_line_what_was_done(spec: StreamSpec) -> None:
    found = line(spec, UPGRADED, soaked="good", handed=json.dumps(HANDED))
    assert found.startswith("Release 1 has taken over from release 1. Gap: a 0.5 s. Nothing lost, nothing doubled")
    assert re.search(r"Release 1 stays warm until about \d{4}-\d\d-\d\d \d\d:\d\d UTC\.$", found)


@pytest.mark.parametrize(("records", "soaked"), [(UPGRADED, "good"), (BACK, "")])
def test_what_was_read_again_on_purpose_does_not_pass_for_nothing_doubled(
    spec: StreamSpec, records: list[Record], soaked: str
) -> None:
    wanted = WantedRewind(1764000000.0, {"enrich": {"orders": {0: 3}}}).to_json()
    mine = [
        replace(each, fields={**each.fields, "rewind": wanted})
        if each.kind == "declared" and each["deployment"] == NEW_DEPLOYMENT
        else each
        for each in records
    ]
    new_log(spec.control, spec.name).beat(NEW, Heartbeat(counter=1, rewind="enrich goes back after batch 7."))
    found = line(spec, mine, soaked=soaked, handed=json.dumps(HANDED), back=json.dumps(HANDED))
    assert "Nothing lost, nothing doubled" in found
    assert "But it was to read records since 2025-11-24 16:00:00 UTC again, which a sink has twice then" in found
    assert ("enrich goes back after batch 7." in found) == bool(soaked), "whoever holds now does not know"


def test_the_line_of_a_run_that_failed_is_its_error(spec: StreamSpec) -> None:
    back = json.dumps({**HANDED, "gap_seconds": {"a": 0.7}})
    found = line(spec, BACK, fault="It is behind.", handed=json.dumps(HANDED), back=back)
    assert found.startswith("Release 1 took over and did not stay. It is behind. Rolled back. Gap: a 0.7 s.")


def test_the_line_after_a_no_says_who_said_it_and_who_holds(spec: StreamSpec) -> None:
    found = line(spec, BOTH, rejected_by="anna")
    assert found.startswith(f"Release 1 was called off: anna said no. {OLD_DEPLOYMENT}")


def test_a_no_before_anything_was_submitted_is_no_failure(spec: StreamSpec) -> None:
    found = line(spec, RUNNING, family="", rejected_by="anna")
    assert found.startswith(f"The new release was called off: anna said no. {OLD_DEPLOYMENT}")


def test_a_no_to_a_release_that_was_promoted_meanwhile_does_not_pass_for_one(spec: StreamSpec) -> None:
    found = line(spec, UPGRADED, rejected_by="anna")
    assert found.startswith("Release 1 took over and still holds. anna said no, too late. Roll it back if it shall not")
