"""What grows with every batch for as long as a stream lives, and the setting that bounds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from devstack.drivers import wait_for
from tests.support.faulty import ROLLING, SECONDS, Start, TwoHosts

pytestmark = pytest.mark.system


def test_an_event_log_grows_with_every_batch_and_rolling_removes_nothing(start: Start, tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.rolling.enabled": "true",
        "spark.eventLog.compress": "false",
    }
    job = start("aggregates", None, conf)

    def size() -> int:
        return sum(path.stat().st_size for path in events.rglob("events_*"))

    sizes = []
    for _ in range(3):
        job.goes_on(5)
        sizes.append(size())
    assert sizes[1] - sizes[0] > 5_000
    assert sizes[2] - sizes[1] > 5_000


def test_without_an_event_log_there_is_none(start: Start, tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    job = start("aggregates", None, {"spark.eventLog.dir": (tmp_path / "events").as_uri()})
    job.goes_on(5)
    assert list((tmp_path / "events").iterdir()) == []


def test_logs_of_executors_roll_where_the_worker_says_so_and_not_where_the_application_does(
    cluster: TwoHosts, start: Start
) -> None:
    job = start("talks", cluster, ROLLING)
    wait_for("two executors", lambda: job.said and len(job.executors()) == 2, SECONDS)
    hosts = {name: words.cmdline() for name, words in job.executors().items()}
    folders = {
        "127.0.0.2" in words: cluster.folder / "work" / job.said["application"] / name for name, words in hosts.items()
    }
    whole = folders[False] / "stderr"
    wait_for("a large log", lambda: whole.stat().st_size > 1_000_000, SECONDS)
    assert [path.name for path in folders[False].glob("stderr*")] == ["stderr"]
    wait_for("rolled logs", lambda: len(list(folders[True].glob("stderr*"))) > 2, SECONDS)
    job.goes_on(3)
    (job.root / "stop").touch()
    job.popen.wait(SECONDS)
    kept = list(folders[True].glob("stderr*"))
    assert len(kept) <= 2 + 1 + 1, "two, the one that is written, and one that is not yet removed"
    assert sum(path.stat().st_size for path in kept) < 1_000_000


def named(log: Path) -> tuple[int, int]:
    """How many files were written up to the last compacted entry of a file sink's log, and how many it names."""
    last = max(log.glob("*.compact"), key=lambda path: int(path.stem))
    return 5 * (int(last.stem) + 1), len(last.read_text().splitlines()) - 1


@pytest.mark.parametrize("retention", ["", "1s"])
def test_the_log_of_a_file_sink_names_every_file_ever_written_without_retention(start: Start, retention: str) -> None:
    conf = {"spark.sql.streaming.fileSink.log.compactInterval": "3"}
    job = start("writes_files", None, conf, **({"RETENTION": retention} if retention else {}))
    job.goes_on(10)

    def as_it_should_be() -> bool:
        written, names = named(job.root / "out" / "_spark_metadata")
        return written > 80 and (names < written - 30 if retention else names == written)

    wait_for("the log to be so", as_it_should_be, SECONDS)


@pytest.mark.parametrize("late", ["", "2 seconds"])
def test_state_grows_with_every_row_without_a_watermark(start: Start, late: str) -> None:
    job = start("state", None, {}, **({"LATE": late} if late else {}))
    job.goes_on(8)
    said = job.said
    # A batch is one second of the rows' own time.
    assert said["state"][-1] == said["rows"] if not late else said["state"][-1] <= 500 < said["rows"]
