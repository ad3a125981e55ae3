"""A trial from its wish to its end, and what it may not do; and the advice that the records and heartbeats give."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.heartbeat import Batch, Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.trial import Trial
from airflow_stream_provider.lifecycle.vitals import QueryVitals, Vitals
from airflow_stream_provider.planning import verbs
from airflow_stream_provider.planning.gates import closed
from airflow_stream_provider.planning.reconcile import shut
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.snapshot import DriverFacts
from airflow_stream_provider.planning.steps import Append, Declare, Done, GiveUp, Step, Want
from airflow_stream_provider.planning.trial import advice_of, next_step, trial_of, try_out
from tests.support.snapshots import ASKED, BOTH, ME, RUNNING, STOPPED, UPGRADED, given_up, scene, snapshot, up
from tests.support.story import NEW, NEW_DEPLOYMENT, OLD, record, requested, retired, wanted

LARGER = Trial(options={"maxoffsetspertrigger": "2000"})
BATCHES = {"old": [[0.2, 1000]] * 9, "new": [[0.2, 2000]] * 9, "on": "clones of the state", "note": ""}
# The task's wish, its deployment, and what its driver found.
POLICY = Policy(trial=LARGER.to_json()).to_json()
WISHED = [*RUNNING, wanted(ME.wish, "stand_by", by=ME.by, policy=POLICY)]
MEASURED = [
    *WISHED,
    *up(NEW, ME.wish)[:-1],
    record(
        "standby",
        deployment=NEW_DEPLOYMENT,
        incarnation=NEW,
        queries=[{"name": "a"}],
        rehearsal={"queries": {"a": {"trial": BATCHES}}},
    ),
]
GONE = {NEW_DEPLOYMENT: DriverFacts(f"driver-{NEW_DEPLOYMENT}", DriverState.FINISHED, gone=True)}


def tries(records: list[Record]) -> list[Record]:
    """The records with the policy of a trial where the driver of one is declared."""
    return [
        replace(r, fields={**r.fields, "policy": POLICY})
        if r.kind == "declared" and r.get("deployment") == NEW_DEPLOYMENT
        else r
        for r in records
    ]


def step(*records: Record, **more: Any) -> Step:
    return next_step(scene(*tries([*records]), **more), LARGER, "why")


def test_a_trial_wishes_for_the_release_that_holds_with_its_settings_beside_it() -> None:
    beat = Heartbeat(queries=(QueryProgress("a", batches=(Batch(1, 1.0, 0.5, 100),)),))
    found = scene(*RUNNING)
    found = replace(found, snapshot=replace(found.snapshot, heartbeats={OLD: beat}))
    wish = try_out(found, LARGER, "why")
    assert isinstance(wish, Want)
    held = found.state.holding_deployment
    assert held is not None
    assert (wish.fields["goal"], wish.fields["release"]["hash"]) == ("stand_by", held.release.hash)
    policy = Policy.from_json(wish.fields["policy"])
    assert Trial.from_json(policy.trial) == replace(LARGER, before={"a": 0.005})
    assert policy.rehearse_seconds >= 1800
    assert not wish.publish


def test_a_trial_goes_from_its_wish_to_the_end_of_its_driver() -> None:
    assert isinstance(step(*RUNNING), Want)
    assert isinstance(step(*WISHED), Declare)
    ends = step(*MEASURED)
    assert isinstance(ends, Want)
    assert (ends.fields["goal"], ends.fields["family"]) == ("hold", "old")
    over = [*MEASURED, wanted(ends.fields["wish"], "hold", family="old", by=ME.by)]
    retires = step(*over, lives={OLD: True})
    assert isinstance(retires, Append)
    assert (retires.kind, retires.fields["deployment"]) == ("retired", NEW_DEPLOYMENT)
    done = step(*over, retired(NEW_DEPLOYMENT), drivers=GONE, lives={OLD: True})
    assert isinstance(done, Done)
    assert [each["verdict"] for each in done.result["tried"]] == ["better"]
    # The runtime of a release that an older version of the package has published rehearses instead.
    old = [*WISHED, *up(NEW, ME.wish), over[-1], retired(NEW_DEPLOYMENT)]
    assert "knows no trials" in given_up(step(*old, drivers=GONE, lives={OLD: True}))
    assert "tried 2.00 ×" in done.result["sentences"][0]


@pytest.mark.parametrize(
    "records",
    [STOPPED, BOTH, ASKED, UPGRADED, [*RUNNING, wanted("s", "stop")], [*RUNNING, wanted("new", "stand_by")]],
    ids=["stopped", "both", "asked", "warm", "rest", "coming"],
)
def test_a_trial_runs_beside_a_holder_that_is_to_stay_and_nothing_else(records: list[Record]) -> None:
    assert isinstance(try_out(scene(*records), LARGER, "why"), GiveUp)


def test_a_driver_of_a_trial_never_comes_to_hold() -> None:
    found = scene(*tries(MEASURED))
    assert isinstance(verbs.promote(found, "why"), GiveUp)
    wish = found.state.wishes[ME.wish]
    for refused in (closed(found, wish, found.state.incarnations[NEW]), shut(found, wish)):
        assert refused is not None
        assert "was brought up for a trial, or to look for bad records, and never comes to hold" in str(refused)


@pytest.mark.parametrize(
    ("conf", "options", "said"),
    [
        (["spark.executor.cores=2"], [], "two drivers would be needed, and that is not built"),
        (["spark.sql.execution.pythonUDF.arrow.enabled=true"], [], "when the script makes its functions"),
        (["spark.sql.catalog.crm=x.y.Catalog"], [], "does not change spark.sql.catalog.crm to that"),
        (["spark.sql.streaming.checkpointFileManagerClass=x.Y"], [], "checkpointFileManagerClass to that"),
        (["spark.sql.streaming.stateStore.providerClass=x.Y"], [], "providerClass to that"),
        (["spark.sql.files.password=hunter2hunter2"], [], "does not change spark.sql.files.password to that"),
        ([], ["maxOffsetsPerTrigger=0"], "maxoffsetspertrigger is not a number above 0"),
        ([], ["subscribe=others"], "both sides have to read the same records"),
        (["spark.sql.shuffle.partitions"], [], "is not NAME=VALUE"),
        ([], [], "No setting is changed"),
    ],
)
def test_what_a_trial_cannot_change_is_refused(conf: list[str], options: list[str], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        trial_of(conf, options)


def test_settings_are_given_as_on_a_command_line() -> None:
    found = trial_of(["spark.sql.shuffle.partitions=6"], ["maxOffsetsPerTrigger=2000"], persist=True)
    assert found == Trial({"spark.sql.shuffle.partitions": "6"}, {"maxoffsetspertrigger": "2000"}, True)
    assert found.changes == "spark.sql.shuffle.partitions=6, maxoffsetspertrigger=2000, persist"


# Of a query that reads each record three times.
SEEN = QueryVitals(durations={"triggerExecution": 1000, "addBatch": 900}, batches=20, records=100, rows=300)
BEAT = Heartbeat(vitals=Vitals(cores=2, queries={"a": SEEN, "new": QueryVitals(batches=1)}))


def test_advice_is_by_the_record_and_the_heartbeat_of_the_holder() -> None:
    found = replace(snapshot(*RUNNING), heartbeats={OLD: BEAT})
    advice = advice_of(found)
    assert [(each.rule, each.query) for each in advice.proposals] == [("read-again", "a")]
    assert advice.missing[0].startswith("new: not enough measured")
    assert json.dumps(advice.to_json())
    assert advice_of(snapshot(*STOPPED)).proposals == ()


def test_the_trial_of_advice_tells_which_rule_and_what_it_predicts() -> None:
    found = scene(*RUNNING)
    found = Scene(replace(found.snapshot, heartbeats={OLD: BEAT}), ME)
    wish = try_out(found, Trial(persist=True), "why")
    assert isinstance(wish, Want)
    known = Trial.from_json(wish.fields["policy"]["trial"])
    assert (known.rule, known.predicted) == ("read-again", 3.0)


def test_a_request_that_names_a_trial_is_legal_and_left_to_expire() -> None:
    """Older readers know no trials: they take its driver for a standby, and the driver itself never answers."""
    state = snapshot(*tries([*MEASURED, requested("r", NEW)])).state
    assert state.open_request is not None
    assert state.deployments[NEW_DEPLOYMENT].policy.trial == LARGER.to_json()
    assert given_up(try_out(scene(*tries([*MEASURED, requested("r", NEW)])), LARGER, "w"))
