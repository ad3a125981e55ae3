"""The simulation, and the model check, find a product that breaks the protocol: each of these has one fault."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from airflow_stream_provider.clusters import UnmanagedView
from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.planning import adopt, due, job
from tests.support.simulation import (
    mutants_of_drivers,
    mutants_of_log,
    mutants_of_topic,
    mutants_of_watch,
    mutants_of_wishes,
)
from tests.support.simulation.adopting import StreamsAdopting
from tests.support.simulation.driver_process import Jvm
from tests.support.simulation.invariants import INVARIANTS
from tests.support.simulation.machine_variants import StreamsPutBack
from tests.support.simulation.mutants import Patch, everywhere, without_rule
from tests.support.simulation.one_seed import FILE, TOPIC, simulate

# What `make test` looks for, one of each kind; `make test-system` looks for all.
SOON = (
    "released_before_the_queries_stop",
    "the_fence_is_left_out",
    "records_share_a_key",
    "the_watch_starts_what_was_stopped",
)
MUTANTS = [
    *mutants_of_drivers.MUTANTS,
    *mutants_of_log.MUTANTS,
    *mutants_of_watch.MUTANTS,
    *mutants_of_wishes.MUTANTS,
]
# From the first seed on; most are found within ten.
SEEDS = 1000
# Seeds that find those that need many. One that does so no more only costs its own time.
HINTS = {
    "a_driver_that_restarts_in_place_looks_at_no_checkpoint": 21,
    "a_fence_goes_by_the_first_policy": 14,
    "a_driver_is_refused_up_to_the_hold_before_its_own": 98,
    "a_gap_is_taken_for_a_loser": 67,
    "a_good_run_is_halted": 36,
    "a_late_checkpoint_is_no_error": 408,
    "a_ledger_that_was_not_asked_counts_as_one_that_refuses": 98,
    "a_lost_machine_is_not_waited_for": 479,
    "a_recovery_asks_only_after_those_it_knows_nothing_of": 494,
    "a_release_that_has_committed_counts_as_one_that_never_did": 84,
    "a_retired_driver_acquires": 11649,
    "a_rewind_goes_back_from_wherever_the_stream_is": 10,
    "a_roll_back_always_skips": 10,
    "a_roll_back_is_forgotten": 19,
    "a_second_request_is_made": 7,
    "a_stale_checkpoint_believed": 61,
    "a_start_gives_up_what_was_lost": 451,
    "a_submission_that_nobody_has_recorded": 193,
    "an_abort_is_ignored": 1831,
    "another_query_is_not_told_by_its_id": 191,
    "another_release_stands_in_at_once": 90,
    "any_checkpoint_is_started_on": 21,
    "fenced_while_it_may_still_beat": 13,
    "goes_on_though_fenced": 10,
    "lease_renewed_without_the_log": 62,
    "never_takes_back": 811,
    "obeys_what_the_rules_forbid": 11,
    "paused_for_ever": 28,
    "records_share_a_key": 6,
    "released_to_a_driver_that_is_lost": 97,
    "sigterm_ends_without_a_release": 47,
    "submitted_without_asking_the_cluster": 76,
    "the_fence_is_left_out": 70,
    "the_id_of_the_topic_is_not_asked_for": 11,
    "the_last_claim_counts": 32,
    "the_watch_appoints_the_dead": 2588,
    "what_a_driver_has_committed_is_known_by_its_heartbeats_alone": 893,
    "what_a_failed_driver_has_committed_is_dropped": 61,
    "what_a_lost_driver_was_to_read_again_is_forgotten": 421,
    "what_earlier_drivers_have_seen_of_the_checkpoint_does_not_count": 61,
    "whoever_has_not_failed_counts_as_one_that_has_committed": 280,
}


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def cases(mutants: list[tuple[Patch, frozenset[str]]]) -> list[Any]:
    """Return mutants as a test's parameters."""
    named = ((fault.__name__, fault, names) for fault, names in mutants)
    return [pytest.param(*each, id=name, marks=() if name in SOON else pytest.mark.system) for name, *each in named]


@pytest.mark.parametrize(("fault", "names"), cases(MUTANTS))
def test_the_seeds_find_it(
    fault: Callable[[pytest.MonkeyPatch], None], names: frozenset[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    assert_found(fault.__name__, FILE, names)


@pytest.mark.parametrize(("fault", "names"), cases(mutants_of_topic.MUTANTS))
def test_the_seeds_of_the_topic_find_it(
    fault: Callable[[pytest.MonkeyPatch], None], names: frozenset[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    assert_found(fault.__name__, TOPIC, names)


def assert_found(mutant: str, store: str, names: frozenset[str]) -> None:
    """The first seed that breaks anything breaks one of these invariants."""
    assert names <= set(INVARIANTS)
    hint = [HINTS[mutant]] if mutant in HINTS else []
    results = (simulate(seed, store) for seed in (*hint, *range(SEEDS)))
    broken = next((result for result in results if result.broken), None)
    assert broken is not None, f"not found in {SEEDS} seeds"
    assert broken.broken in names, broken.found


def model_check_says(machine: type[RuleBasedStateMachine], name: str) -> None:
    """The first example that breaks anything breaks this invariant."""
    enough = settings(
        max_examples=1500,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    with pytest.raises(AssertionError, match=name):
        run_state_machine_as_test(machine, settings=enough)


def test_the_model_check_finds_a_driver_that_goes_on_from_another_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ControlLog, "_verify", lambda self: None)
    model_check_says(StreamsPutBack, "one-log")


@pytest.mark.system
def test_the_model_check_finds_a_follower_that_answers_while_the_logs_of_its_job_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Jvm, "waits_for", "")
    model_check_says(StreamsAdopting, "after-the-job")


def test_the_model_check_finds_an_appointment_before_the_cluster_has_confirmed_the_end_of_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(UnmanagedView, "gone", True)
    model_check_says(StreamsAdopting, "after-the-job")


def test_the_model_check_finds_a_job_that_is_ended_before_anybody_has_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adopt, "_ending", lambda *rest: None)
    model_check_says(StreamsAdopting, "intent-first|it stands still")  # nor is a person told who was asked to end it


@pytest.mark.system
def test_the_model_check_finds_a_watch_that_does_not_ask_for_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due, "job_of_interest", lambda state: "")
    model_check_says(StreamsAdopting, "it stands still")


def test_a_driver_that_is_appointed_before_the_job_is_gone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what the model check would have to choose: an upgrade beside an idle job whose follower waits for a person."""
    without_rule(monkeypatch, Kind.REQUESTED, "job-gone-first")
    everywhere(monkeypatch, job.job_first, lambda state: "")
    streams = StreamsAdopting()
    with streams.within:
        streams.begin(idle=True, how="not yet")
        streams.deploy(0)
        with pytest.raises(AssertionError, match="after-the-job"):
            streams.hand_over(1)
