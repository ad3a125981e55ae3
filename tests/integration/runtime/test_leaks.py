"""A real driver with a small heap, and three leaks: when it was foretold that they fill it, and when they do."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_stream_provider.lifecycle.vitals import Vitals
from airflow_stream_provider.monitoring import trends as of
from airflow_stream_provider.monitoring.trends import REFRESH_SECONDS, Level, Trace, levels, refresh_due, trends
from devstack.drivers import HandRunStream, hand_run_stream, wait_for
from tests.support.hand_run import show

SCRIPT = Path(__file__).with_name("scripts") / "leaks.py"
# It takes five minutes.
pytestmark = pytest.mark.system


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[HandRunStream]:
    with hand_run_stream(tmp_path) as found:
        options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+ExitOnOutOfMemoryError"
        found.spark_conf |= {
            "spark.driver.extraJavaOptions": options,
            "spark.cleaner.periodicGC.interval": "3s",  # half an hour in that of a test
            # Of the sink's log a hundred batches are kept otherwise, and every tenth has all before it.
            "spark.sql.streaming.minBatchesToRetain": "20",
            "spark.sql.streaming.fileSink.log.compactInterval": "3",
            "spark.sql.streaming.fileSink.log.cleanupDelay": "1s",
        }
        yield found
    show(found)


def vitals_until_the_end(stream: HandRunStream, incarnation: str) -> tuple[list[Vitals], float]:
    """The vitals of each heartbeat, and when the driver ended."""
    found: list[Vitals] = []

    def ended() -> bool:
        beat = stream.log.heartbeat(incarnation)
        if beat is not None and beat.vitals is not None and (not found or beat.vitals.at > found[-1].at):
            found.append(beat.vitals)
        return stream.drivers[-1].popen.poll() is not None

    wait_for("the driver to run out of memory", ended, seconds=1200.0)
    return found, time.time()


def foretold(samples: list[Vitals], name: str, limit: float, half: float) -> of.Trend | None:
    """What a watch that has looked until `half` says of one vital."""
    trace, found = Trace(), None
    for each in samples:
        now = levels(each, None)
        if each.at <= half and name in now:
            trace = trace.after("d", each.at, {name: now[name].value})
            ours = {name: Level(now[name].value, limit, now[name].says, now[name].unit)}
            found = next(iter(trends(trace, ours, None, each.at)), None)
    return found


def test_three_leaks_are_foretold_within_a_fifth_of_the_time_that_is_left(
    stream: HandRunStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of, "LEAST_SECONDS", 30.0)
    stream.deploy("orders-1", SCRIPT, str(tmp_path), str(tmp_path / "checkpoints"))
    one = stream.standby("orders-1")
    stream.hand_over(one)
    wait_for(
        "both queries to grow",
        lambda: (
            (beat := stream.log.heartbeat(one)) is not None and len(beat.vitals.queries if beat.vitals else ()) == 2
        ),
    )
    state = stream.state
    (tmp_path / "go").touch()
    began = time.time()
    samples, end = vitals_until_the_end(stream, one)
    assert "OutOfMemoryError" in stream.drivers[-1].log()
    half = began + (end - began) / 2
    at = max(each.at for each in samples if each.at <= half)
    heap = foretold(samples, "heap", samples[-1].heap_max or 0, half)
    assert heap is not None
    print(f"Heap: foretold in {heap.seconds:.0f} s, out of memory after {end - at:.0f} s. {heap.sentence}")
    assert heap.seconds == pytest.approx(end - at, rel=0.2)
    due = refresh_due(state, [heap], REFRESH_SECONDS)
    assert due is not None
    assert due.deployment == "orders-1"
    # Of the other two no limit is reached: they are foretold for what they were at four fifths of the time, about.
    for name in ("state", "sink_log/files"):
        then = began + 0.8 * (end - began)
        sizes = [levels(each, None)[name].value for each in samples if abs(each.at - then) < 0.05 * (end - began)]
        found = foretold(samples, name, statistics.median(sizes), half)
        assert found is not None, name
        print(f"{name}: foretold in {found.seconds:.0f} s, reached after {then - at:.0f} s.")
        assert found.seconds == pytest.approx(then - at, rel=0.2), name
