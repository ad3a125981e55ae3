"""What the watch keeps: whole, the newest, and readable by other versions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.control.files import FilesStore
from airflow_stream_provider.control.files_root import SampleFile
from airflow_stream_provider.control.root import make_root
from airflow_stream_provider.lag.limits import Health, Streaks
from airflow_stream_provider.lag.report import Ceilings, LagReport, PartitionLag, PartitionState, QueryLag, Verdict
from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from airflow_stream_provider.monitoring import samples as samples
from airflow_stream_provider.monitoring.incidents import Incident, IncidentState
from airflow_stream_provider.monitoring.samples import LagSample, QuerySample, bad_since

BEHIND = LagSample(
    5.0,
    phase="running",
    version="2",
    queries={"hourly": QuerySample(7, 1.5, "WARN", ("RETENTION",)), "daily": QuerySample()},
    health=Health.FAIL,
    incidents={
        "lag": IncidentState(
            Streaks(bad=4.0),
            Incident("orders-lag-4", 4.0),
            {"pager": Incident("orders-lag-4", 4.0)},
            "hourly falls behind.",
        )
    },
    counters={"orders-2-aaaa.00000001": 17},
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_root(tmp_path.as_uri())
    made = FilesStore(tmp_path / "orders")
    made.initialise()
    return made.folder


@pytest.fixture
def kept(folder: Path) -> SampleFile:
    return SampleFile(folder)


def test_a_stream_that_nobody_watched_has_no_samples(kept: SampleFile) -> None:
    assert samples.read(kept) == []


def test_samples_come_back_as_they_were(kept: SampleFile) -> None:
    samples.append(kept, BEHIND)
    samples.append(kept, LagSample(6.0, problem="Kafka does not answer."))
    assert samples.read(kept) == [BEHIND, LagSample(6.0, problem="Kafka does not answer.")]


def test_the_last_one_is_found_whatever_is_before_it(kept: SampleFile) -> None:
    assert samples.last(kept) is None
    for number in range(50):
        samples.append(kept, LagSample(float(number), problem="x" * 1000))
    assert samples.last(kept) == LagSample(49.0, problem="x" * 1000)
    samples.append(kept, replace(BEHIND, queries={f"query {n}": QuerySample(n) for n in range(2000)}))
    newest = samples.last(kept)
    assert newest is not None
    assert (newest.at, len(newest.queries)) == (5.0, 2000)


def test_who_was_told_takes_the_place_of_the_same_look(kept: SampleFile) -> None:
    told = replace(BEHIND, incidents={})
    for each in (LagSample(1.0), BEHIND, told):
        samples.append(kept, each)
    assert samples.read(kept) == [LagSample(1.0), told]
    assert samples.last(kept) == told


@pytest.mark.parametrize("torn", [1, 40, 200])
def test_a_writer_killed_in_the_middle_harms_no_other_sample(kept: SampleFile, folder: Path, torn: int) -> None:
    samples.append(kept, BEHIND)
    file = folder / "lag.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:torn])
    assert samples.last(kept) == BEHIND
    samples.append(kept, LagSample(6.0))
    assert samples.read(kept) == [BEHIND, LagSample(6.0)]


def test_a_sample_of_a_newer_version_can_be_read(kept: SampleFile, folder: Path) -> None:
    newer = {**BEHIND.to_json(), "weather": "rain", "queries": {"hourly": {"records": 1, "colour": "red"}}}
    (folder / "lag.jsonl").write_text(json.dumps(newer))
    assert samples.read(kept)[0].queries == {"hourly": QuerySample(1)}


INCIDENT = IncidentState(Streaks(bad=4.0), Incident("orders-lag-4", 4.0)).to_json()
ODD_INCIDENTS: list[dict[str, Any]] = [
    {**INCIDENT, "streaks": {"bad": "x"}},
    {**INCIDENT, "streaks": {"good": float("nan")}},
    {**INCIDENT, "incident": {"id": "x", "since": "y"}},
]
ODD = [
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"at": "noon"}',
    *(json.dumps({"at": 1.0, "incidents": {"lag": odd}}).encode() for odd in ODD_INCIDENTS),
    b'{"at": 1, "counters": {"a": "b"}}',
    b'{"at": 1, "earlier": {"a": 1}}',
    b'{"at": 1, "queries": {"a": {"records": "many"}}}',
]


@pytest.mark.parametrize("damaged", [b"", b'{"at"', b"[]", b"1", b"{}", b"\0" * 5000, *ODD])
def test_what_a_crash_has_left_begins_anew(kept: SampleFile, folder: Path, damaged: bytes) -> None:
    (folder / "lag.jsonl").write_bytes(damaged)
    assert samples.read(kept) == []
    assert samples.last(kept) is None
    samples.append(kept, BEHIND)
    assert samples.read(kept) == [BEHIND]


def test_a_folder_that_is_gone_is_not_a_stream_without_samples(kept: SampleFile, folder: Path) -> None:
    folder.rename(folder.with_name("unmounted"))
    for reading in (samples.read, samples.last):
        with pytest.raises(ControlUnavailable):
            reading(kept)
    with pytest.raises(ControlUnavailable):
        samples.append(kept, BEHIND)


def test_the_slowest_query_is_the_stream() -> None:
    assert (BEHIND.records, BEHIND.seconds) == (7, 1.5)
    assert (LagSample(1.0).records, LagSample(1.0).seconds) == (None, None)


def test_a_report_gives_its_numbers_verdict_and_alarms() -> None:
    partition = PartitionLag("t", 0, PartitionState.OK, committed=3, log_start=5, end=9, verdict=Verdict.STOP)
    report = LagReport(1.0, (QueryLag("q", (partition,), seconds=2.0), QueryLag("r", problem="No checkpoint.")))
    assert samples.queries_of(report, Ceilings()) == {
        "q": QuerySample(4, 2.0, "ERR", ("LOST_DATA",), lost=2, lost_ever=2),
        "r": QuerySample(None, None, "UNKNOWN"),
    }


def lost(records: int, batch: int | None) -> LagReport:
    partition = PartitionLag("t", 0, PartitionState.OK, committed=3, log_start=3 + records, end=900, verdict=Verdict.OK)
    return LagReport(1.0, (QueryLag("q", (partition,), seconds=2.0, batch=batch),))


def test_what_was_lost_is_not_forgotten_at_the_next_commit() -> None:
    kept: list[LagSample] = []
    for records, batch, ever in [(2, 7, 2), (2, 7, 2), (5, 7, 5), (0, 8, 5), (5, 9, 10), (5, 9, 10)]:
        found = samples.queries_of(lost(records, batch), Ceilings(), samples.last_queries(kept))
        assert (found["q"].lost, found["q"].lost_ever) == (records, ever)
        kept += [LagSample(1.0, queries=found), LagSample(2.0, problem="Kafka is away.")]
    assert LagSample.from_json(json.loads(json.dumps(kept[-2].to_json()))) == kept[-2]


def sample(at: float, health: Health) -> LagSample:
    return LagSample(at, health=health)


def test_it_is_bad_since_the_first_sample_of_the_last_run() -> None:
    bad, good, unknown = Health.FAIL, Health.PASS, Health.UNKNOWN
    found = [sample(float(at), health) for at, health in enumerate((bad, good, bad, unknown, bad, unknown))]
    assert bad_since(found, 9.0) == 2.0
    assert bad_since(found[:2], 9.0) == 9.0
    assert bad_since([], 9.0) == 9.0


def test_a_sample_of_a_version_that_kept_no_health_is_unknown() -> None:
    older = {key: value for key, value in BEHIND.to_json().items() if key != "health"}
    assert LagSample.from_json(older).health is Health.UNKNOWN


def test_a_healthy_look_without_the_right_to_see_retention_ends_a_run_of_bad_ones() -> None:
    def at(seconds: float, health: Health, **more: object) -> LagSample:
        queries = {"enrich": QuerySample(records=5, seconds=1.0, verdict="OK")}
        return LagSample(seconds, queries=queries, health=health, **more)  # type: ignore[arg-type]

    healthy = [at(60.0 * n, Health.UNKNOWN) for n in range(1, 9)]
    assert bad_since([at(0, Health.FAIL), *healthy, at(540, Health.FAIL)], 600.0) == 540
    blind = [LagSample(60.0 * n, health=Health.UNKNOWN, problem="Kafka does not answer.") for n in range(1, 9)]
    assert bad_since([at(0, Health.FAIL), *blind, at(540, Health.FAIL)], 600.0) == 0
