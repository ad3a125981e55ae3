"""What a file sink's log means for its query's checkpoint. Real ones: tests/integration/runtime/test_positions.py."""

from __future__ import annotations

import pytest

from airflow_stream_provider.checkpoint import LogEnds, SinkLog
from airflow_stream_provider.runtime.remembered import judge

NEW = LogEnds(None, None)


@pytest.mark.parametrize(
    ("ends", "earlier", "later"),
    [
        pytest.param(NEW, SinkLog(), SinkLog(), id="both are new"),
        pytest.param(LogEnds(7, 7), SinkLog(7), SinkLog(7), id="at a batch boundary"),
        pytest.param(LogEnds(8, 7), SinkLog(8), SinkLog(8), id="written and not committed"),
        pytest.param(LogEnds(8, 7), SinkLog(7), SinkLog(7), id="planned and not written"),
        pytest.param(LogEnds(9, 9), SinkLog(7), SinkLog(9), id="the holder goes on between the looks"),
        pytest.param(LogEnds(8, 7), SinkLog(7), SinkLog(9), id="and behind the last one"),
        pytest.param(LogEnds(0, None), SinkLog(), SinkLog(), id="its first batch is under way"),
    ],
)
def test_a_log_that_goes_with_the_checkpoint(ends: LogEnds, earlier: SinkLog, later: SinkLog) -> None:
    assert judge("q", "/out", earlier, ends, lambda: later) == ([], [])


@pytest.mark.parametrize(
    ("ends", "log", "said"),
    [
        (NEW, SinkLog(14), "batches up to 14, and its checkpoint goes on with batch 0"),
        (NEW, SinkLog(0), "so the next 1 would be committed and never written"),
        (LogEnds(3, 3), SinkLog(14), "goes on with batch 4"),
        (LogEnds(3, 2), SinkLog(5), "so the next 2 would be committed and never written"),
    ],
)
def test_a_log_that_is_ahead_loses_batches(ends: LogEnds, log: SinkLog, said: str) -> None:
    (lost,), fatal = judge("q", "/out", log, ends, lambda: log)
    assert said in lost
    assert fatal == []


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (SinkLog(), "has committed batches up to 7, and the log in that folder has none"),
        (SinkLog(3), "and the log in that folder has them up to 3"),
        (SinkLog(7, (4, 5)), "the log in that folder lacks the batches 4, 5"),
    ],
)
def test_a_log_that_lacks_batches_ends_the_query_for_ever(log: SinkLog, said: str) -> None:
    lost, (fatal,) = judge("q", "/out", log, LogEnds(7, 7), lambda: log)
    assert said in fatal
    assert lost == []
