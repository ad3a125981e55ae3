"""What the watch keeps: whole, the newest, and readable by other versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.control.files import FilesStore
from airflow_stream_provider.control.root import make_root
from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.lag.report import Ceilings, LagReport, PartitionLag, PartitionState, QueryLag, Verdict
from airflow_stream_provider.lag.streaks import Streaks
from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from airflow_stream_provider.monitoring import samples as samples
from airflow_stream_provider.monitoring.incidents import Incident, IncidentState
from airflow_stream_provider.monitoring.samples import KEPT, LagSample, QuerySample, bad_since

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
def store(tmp_path: Path) -> FilesStore:
    make_root(tmp_path.as_uri())
    made = FilesStore(tmp_path / "orders")
    made.initialise()
    return made


def test_a_stream_that_nobody_watched_has_no_samples(store: FilesStore) -> None:
    assert samples.read(store) == []


def test_samples_come_back_as_they_were(store: FilesStore) -> None:
    samples.append(store, BEHIND)
    samples.append(store, LagSample(6.0, problem="Kafka does not answer."))
    assert samples.read(store) == [BEHIND, LagSample(6.0, problem="Kafka does not answer.")]


def test_the_oldest_go(store: FilesStore) -> None:
    many = {"samples": [LagSample(float(number)).to_json() for number in range(KEPT)]}
    store.put_samples(json.dumps(many).encode())
    samples.append(store, LagSample(1000.0))
    kept = samples.read(store)
    assert (len(kept), kept[0].at, kept[-1].at) == (KEPT, 1.0, 1000.0)
    assert not list((store.folder / "incoming").iterdir())


def test_a_sample_of_a_newer_version_can_be_read(store: FilesStore) -> None:
    newer = {**BEHIND.to_json(), "weather": "rain", "queries": {"hourly": {"records": 1, "colour": "red"}}}
    store.put_samples(json.dumps({"samples": [newer]}).encode())
    assert samples.read(store)[0].queries == {"hourly": QuerySample(1)}


INCIDENT = IncidentState(Streaks(bad=4.0), Incident("orders-lag-4", 4.0)).to_json()
ODD_INCIDENTS: list[dict[str, Any]] = [
    {**INCIDENT, "streaks": {"bad": "x"}},
    {**INCIDENT, "streaks": {"bad": 1e18}},
    {**INCIDENT, "streaks": {"good": float("nan")}},
    {**INCIDENT, "incident": {"id": "x", "since": 1e18}},
    {**INCIDENT, "acknowledged": {"x": {"id": "x", "since": float("nan")}}},
]
ODD = [
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"samples": [{"at": "noon"}]}',
    b'{"samples": [{"at": 1e18}]}',  # later than any date
    *(json.dumps({"samples": [{"at": 1.0, "incidents": {"lag": odd}}]}).encode() for odd in ODD_INCIDENTS),
    b'{"samples": [{"at": 1, "counters": {"a": "b"}}]}',
    b'{"samples": [{"at": 1, "queries": {"a": {"records": "many"}}}]}',
]


@pytest.mark.parametrize(
    "damaged", [b"", b'{"samples": [{"at"', b"[]", b'{"samples": [1]}', b'{"samples": [{}]}', *ODD]
)
def test_what_a_crash_has_left_begins_anew(store: FilesStore, damaged: bytes) -> None:
    store.put_samples(damaged)
    assert samples.read(store) == []
    samples.append(store, BEHIND)
    assert samples.read(store) == [BEHIND]


def test_a_folder_that_is_gone_is_not_a_stream_without_samples(store: FilesStore) -> None:
    store.folder.rename(store.folder.with_name("unmounted"))
    with pytest.raises(ControlUnavailable):
        samples.read(store)
    with pytest.raises(ControlUnavailable):
        samples.append(store, BEHIND)


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
