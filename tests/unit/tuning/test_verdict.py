"""What a trial's batches say, and when advice is closed or taken back."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.lifecycle.heartbeat import Batch, Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.trial import Trial
from airflow_stream_provider.tuning.verdict import (
    Live,
    Ratio,
    Verdict,
    in_vain,
    ratio_of,
    seconds_per_record,
    tried,
    verdict_of,
)

LARGER = Trial(options={"maxoffsetspertrigger": "2000"}, rule="small-batches", predicted=3.1, before={"q": 0.0002})
# Batches of 1,000 records in about 0.2 s, and of 2,000 in about 0.15 s.
OLD = [[0.2 + each / 100, 1000] for each in range(-3, 4)]
NEW = [[0.15 + each / 100, 2000] for each in range(-3, 4)]


def records(trial: Trial, old: Any = OLD, new: Any = NEW) -> list[Record]:
    found = {"queries": {"q": {"trial": {"old": old, "new": new, "on": "clones of the state", "note": ""}}}}
    return [
        Record("declared", {"deployment": "a", "policy": {}}).numbered(1),
        Record("standby", {"deployment": "a", "rehearsal": {"queries": {"q": {"batches": 3}}}}).numbered(2),
        Record("declared", {"deployment": "b", "policy": {"trial": trial.to_json()}}).numbered(3),
        Record("standby", {"deployment": "b", "rehearsal": found}).numbered(4),
    ]


def test_a_ratio_is_by_the_medians_of_seconds_per_record_with_its_spread() -> None:
    found = ratio_of(OLD, NEW)
    assert found is not None
    assert found.value == pytest.approx(2.67, abs=0.01)
    assert found.low < found.value < found.high
    assert found.low > 2
    assert ratio_of(OLD, NEW) == found, "the same batches have the same spread"
    assert str(Ratio(2.0, 1.5, 2.5, 9, 9)) == "2.00 × (1.50 to 2.50)"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (OLD, NEW, Verdict.BETTER),
        (NEW, OLD, Verdict.NOT_BETTER),
        (OLD, OLD, Verdict.NOT_BETTER),
        # By the medians it is 1.2 times faster, and the next batch may say the contrary.
        (
            [[s, 100] for s in (0.1, 0.1, 0.6, 0.6, 0.6)],
            [[s, 100] for s in (0.1, 0.1, 0.5, 0.9, 0.9)],
            Verdict.NOT_BETTER,
        ),
        (OLD[:4], NEW, Verdict.UNMEASURED),
        (OLD, [[0.1, 0]] * 9, Verdict.UNMEASURED),
        ([], [], Verdict.UNMEASURED),
    ],
)
def test_a_trial_is_better_only_without_doubt(old: Any, new: Any, expected: Verdict) -> None:
    assert verdict_of(ratio_of(old, new)) is expected


def test_trials_are_read_from_the_records() -> None:
    (found,) = tried(records(LARGER), Live())
    assert (found.trial, found.query, found.seq, found.verdict) == (LARGER, "q", 4, Verdict.BETTER)
    assert found.sentence.startswith("q with maxoffsetspertrigger=2000: predicted 3.10 ×, tried 2.67 × (")
    assert found.sentence.endswith("): better, and not live yet.")
    assert in_vain([found]) == []


def test_advice_is_closed_once_the_holder_runs_with_the_change() -> None:
    options = {"q": {"maxoffsetspertrigger": "2000"}}
    now = Live(since=9, options=options, seconds={"q": 0.0001})
    (found,) = tried(records(LARGER), now)
    assert found.live == pytest.approx(2.0)
    assert "live 2.00 ×: closed." in found.sentence
    for other in (Live(9, {}, {}, {"q": 0.0001}), Live(3, {}, options, {"q": 0.0001}), Live(9, {}, options)):
        assert tried(records(LARGER), other)[0].live is None


def test_settings_and_persisted_batches_are_seen_in_the_holder() -> None:
    assert Live(conf={"a": "1"}).has(Trial(conf={"a": "1"}), "q")
    assert not Live(conf={"a": "2"}).has(Trial(conf={"a": "1"}), "q")
    assert Live(reads={"q": 1.0}).has(Trial(persist=True), "q")
    assert not Live(reads={"q": 3.0}).has(Trial(persist=True), "q")
    assert not Live().has(Trial(persist=True), "q")


def test_advice_is_taken_back_when_the_trial_finds_no_gain() -> None:
    found = tried(records(LARGER, NEW, OLD), Live())
    assert [each.state for each in found] == ["not better"]
    assert in_vain(found) == [LARGER]
    assert in_vain([*found, *tried(records(LARGER), Live())]) == [], "tried again, it was better"


def test_a_trial_that_measured_too_little_takes_nothing_back() -> None:
    found = tried(records(LARGER, OLD[:2]), Live())
    assert [each.state for each in found] == ["not enough measured"]
    assert in_vain(found) == []


def test_seconds_per_record_are_over_the_last_batches() -> None:
    batches = (Batch(1, 1.0, 0.5, 100), Batch(2, 2.0, 0.7, 200))
    beat = Heartbeat(queries=(QueryProgress("q", batches=batches), QueryProgress("idle")))
    assert seconds_per_record(beat) == {"q": pytest.approx(0.004)}
    assert seconds_per_record(None) == {}
