from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.planning.waits import Ended, WaitOutcome


@pytest.mark.parametrize("event", [None, {}, {"ended": "perhaps"}, {"ended": "reached"}, "reached", 1])
def test_an_event_that_is_not_ours_is_refused(event: Any) -> None:
    with pytest.raises(StreamError, match="instead of a stream event"):
        WaitOutcome.from_event(event)


def test_an_outcome_survives_the_metadata_database() -> None:
    outcome = WaitOutcome(Ended.DEAD, "x", "why", {"a": 1}, 5.0, {"x": 7})
    assert WaitOutcome.from_event(outcome.to_event()) == outcome


def test_what_cannot_be_encoded_does_not_cross_it() -> None:
    outcome = WaitOutcome(Ended.REACHED, "x", "it cannot read \udc80", {"message": "\0"}, 5.0)
    crossed = WaitOutcome.from_event(outcome.to_event())
    assert (crossed.reason, crossed.evidence) == ("it cannot read \ufffd", {"message": "\ufffd"})


def test_an_outcome_is_outdated_once_the_driver_has_beaten() -> None:
    outcome = WaitOutcome(Ended.SILENT, "x", counters={"x": 7})
    assert outcome.outdated("x", 8)
    assert not outcome.outdated("x", 7)
    assert not outcome.outdated("another", 8)
