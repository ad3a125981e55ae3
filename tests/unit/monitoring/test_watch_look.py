"""What the watch makes of one look: a sample, judged, and alerts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.lag.limits import Health, LagLimits
from airflow_stream_provider.lag.look import LagLook
from airflow_stream_provider.lag.report import PartitionLag
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.monitoring.alert import Alert
from airflow_stream_provider.monitoring.samples import LagSample, QuerySample
from airflow_stream_provider.monitoring.watch_look import Alerts, sample_of
from tests.support.lag_reports import partition, report
from tests.support.snapshots import snapshot
from tests.support.story import NEW, OLD, RUNNING, STOPPED, acquired, play

LIMITS = LagLimits(max_records=10)


def looked(*partitions: PartitionLag) -> LagLook:
    found = report(*partitions)
    return LagLook(found.at, found)


def sample(lag: LagLook | None, samples: list[LagSample] | None = None, records: list[Record] = RUNNING) -> LagSample:
    found = replace(snapshot(*records, at=1000.0), heartbeats={OLD: Heartbeat(counter=6)})
    return sample_of(found, lag, samples or [], LIMITS, 0.0)


@pytest.mark.parametrize(
    ("lag", "health"),
    [
        (looked(partition(10)), Health.PASS),
        (looked(partition(11)), Health.FAIL),
        (looked(partition(None)), Health.UNKNOWN),
        (LagLook(5.0, None, "Kafka is away."), Health.UNKNOWN),
        (None, Health.UNKNOWN),
    ],
)
def test_the_health_is_judged_at_the_look_and_kept(lag: LagLook | None, health: Health) -> None:
    assert LagSample.from_json(sample(lag).to_json()).health is health


def test_a_sample_keeps_the_stream_the_queries_and_the_counters() -> None:
    found = sample(looked(partition(3)))
    assert (found.phase, found.version, found.counters) == ("running", "1", {OLD: 6})
    assert found.queries == {"enrich": QuerySample(3, 5.0, "OK")}
    assert sample(LagLook(5.0, None, "Kafka is away.")).problem == "Kafka is away."


def test_a_lag_of_a_stream_that_was_stopped_is_kept_and_opens_nothing() -> None:
    found = sample(looked(partition(11)), records=STOPPED)
    assert (found.health, found.open_incidents) == (Health.FAIL, {})


def test_people_are_told_of_illegal_records_until_no_look_that_is_kept_is_older() -> None:
    forged = acquired(NEW, "forged", 7).numbered(len(RUNNING) + 1)
    found = replace(snapshot(*RUNNING, at=1000.0), state=fold([forged], play(RUNNING)))
    kept = [sample(None)]
    assert kept[0].open_incidents == {}
    for _ in range(3):
        kept.append(sample_of(found, None, kept, LIMITS, 0.0))
        assert set(kept[-1].open_incidents) == {"log"}
    assert sample_of(found, None, kept[1:], LIMITS, 0.0).open_incidents == {}
    assert LagSample.from_json(kept[-1].to_json()).illegal == 1


class Watch:
    """Sends what is due after each look."""

    def __init__(self) -> None:
        self.received: list[Alert] = []
        self.broken = False
        self.asked_for_links = 0
        self.samples: list[LagSample] = []

    def receive(self, alert: Alert) -> None:
        if self.broken:
            raise ConnectionError("no line today")
        self.received.append(alert)

    def links(self) -> Mapping[str, str]:
        self.asked_for_links += 1
        return {"Spark UI": "http://ui"}

    def look(self, lag: LagLook) -> None:
        context: dict[str, Any] = {}
        found = sample(lag, self.samples)
        self.samples.append(
            Alerts([self.receive], context, self.links).send("orders", found, lag, self.samples, LIMITS)
        )


def test_an_alert_about_a_lag_has_its_numbers_and_links() -> None:
    watch = Watch()
    watch.look(looked(partition(5)))
    assert (watch.received, watch.asked_for_links) == ([], 0)
    watch.look(looked(partition(50)))
    (opened,) = watch.received
    assert (opened.open, opened.records, opened.links) == (True, 50, {"Spark UI": "http://ui"})
    assert opened.reasons == ("enrich is behind by 50 records; 10 are allowed.",)
    watch.look(looked(partition(0)))
    assert [(each.open, each.incident) for each in watch.received[1:]] == [(False, opened.incident)]


def test_what_could_not_be_delivered_is_sent_at_the_next_look_and_once_to_each() -> None:
    watch = Watch()
    watch.broken = True
    watch.look(looked(partition(50)))
    assert set(watch.samples[-1].incidents["lag"].acknowledged) == {"log"}
    watch.broken = False
    watch.look(looked(partition(50)))
    watch.look(looked(partition(50)))
    assert [each.open for each in watch.received] == [True]
