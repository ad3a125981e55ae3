"""What many streams need: one incident, whose text names them, and what it explains."""

from __future__ import annotations

from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.lifecycle.heartbeat import QueryHealth
from airflow_stream_provider.monitoring.causes import (
    FAILING_SECONDS,
    RETURN_SECONDS,
    Cause,
    explained,
    named,
    queries_failed,
)
from airflow_stream_provider.monitoring.health import TRANSIENT_SECONDS
from airflow_stream_provider.monitoring.incidents import IncidentKind
from airflow_stream_provider.planning.stream_health import IllQuery
from tests.support.story import OLD, RUNNING, failed, play, released

KAFKA, CLUSTER, CONTROL = IncidentKind.KAFKA, IncidentKind.CLUSTER, IncidentKind.CONTROL
CHECKPOINTS = IncidentKind.CHECKPOINTS
MANY = [f"s{number:02d}" for number in range(12)]


def test_the_text_says_how_many_streams_and_names_the_first() -> None:
    assert named(reversed(MANY)) == "12 streams (s00, s01, s02, s03, s04 and 7 more)"
    assert named(["orders"]) == "1 stream (orders)"
    assert named([]) == "no stream"
    symptom = Cause(KAFKA, "kafka_default", MANY, "Kafka does not answer.", ["s03"]).symptom
    assert symptom.description == (
        "Down: 1 stream (s03). "
        "Kafka does not answer. The lag is unknown of 12 streams (s00, s01, s02, s03, s04 and 7 more)."
    )
    assert Cause(KAFKA, "kafka_default", MANY).subject == "Kafka kafka_default"


def test_it_is_worse_with_each_stream_that_goes_down_and_the_text_names_that_one_first() -> None:
    worse = Cause(CLUSTER, "spark", MANY, "It is away.", [*MANY[:6], "s11"], MANY[:6]).symptom
    assert worse.worse
    assert worse.description.startswith("Down: 7 streams (s11, s00, s01, s02, s03 and 2 more). It is away. ")
    assert not Cause(CLUSTER, "spark", MANY, "It is away.", MANY[:5], MANY[:6]).symptom.worse


def test_people_are_told_as_soon_as_of_a_stream() -> None:
    def patience(kind: IncidentKind, *down: str) -> float:
        return Cause(kind, "x", MANY, "It is away.", down).symptom.for_at_least

    assert patience(KAFKA) == patience(CLUSTER) == TRANSIENT_SECONDS
    assert patience(KAFKA, "s00") == patience(CLUSTER, "s00") == 0.0
    assert patience(CONTROL) == FAILING_SECONDS
    assert Cause(CONTROL, "x", MANY).symptom.health is Health.PASS


def test_it_explains_what_its_absence_does_and_for_a_while_that_streams_are_down() -> None:
    down, lag = IncidentKind.DOWN, IncidentKind.LAG_UNKNOWN
    assert explained(KAFKA, None, "away", 0.0, failed=True) >= {down, lag}
    assert explained(CLUSTER, None, "away", 0.0, failed=False) == {down}
    assert explained(CLUSTER, None, "away", 0.0, failed=True) == frozenset(), "its driver has said why it ended"
    assert explained(CHECKPOINTS, None, "hang", 0.0, failed=False) == {lag}
    assert explained(CHECKPOINTS, 100.0, "", 110.0, failed=False) == frozenset()
    assert explained(CONTROL, None, "away", 0.0, failed=False) >= {down, IncidentKind.WATCH}
    assert explained(KAFKA, None, "", 0.0, failed=True) == frozenset()
    assert explained(KAFKA, 100.0, "", 100.0 + RETURN_SECONDS - 1, failed=True) == {down}
    assert explained(KAFKA, 100.0, "", 100.0 + RETURN_SECONDS, failed=True) == frozenset()
    assert explained(CLUSTER, 100.0, "", 110.0, failed=False, stuck=True) == frozenset(), "nothing brings it back"
    assert explained(CLUSTER, 100.0, "away", 110.0, failed=False, stuck=True) == {down}, "one incident tells of both"


def test_without_kafka_queries_fail_but_no_driver_falls_silent() -> None:
    found = explained(KAFKA, 100.0, "away", 110.0, failed=False)
    assert IncidentKind.DOWN not in found
    assert found >= {IncidentKind.LAG, IncidentKind.LAG_UNKNOWN, IncidentKind.OFFSETS_GROUP}
    assert explained(KAFKA, 100.0, "", 110.0, failed=False) == frozenset()


def test_only_queries_that_have_failed_are_down_for_that() -> None:
    records = (*RUNNING, failed(OLD))
    assert queries_failed(play(records))
    assert not queries_failed(play(RUNNING))
    assert not queries_failed(play([*RUNNING, released(OLD, None, None)]))


def test_an_outage_explains_only_the_queries_that_need_what_is_away() -> None:
    reads = IllQuery("reads", QueryHealth("retrying", 90.0), needs_kafka=True)
    files, waits = IllQuery("files", QueryHealth("retrying", 90.0)), IllQuery("waits", QueryHealth("waiting", 90.0))

    def explains(kind: IncidentKind, *ill: IllQuery, problem: str = "away", at: float = 110.0) -> bool:
        return IncidentKind.QUERY in explained(kind, 100.0, problem, at, failed=False, ill=ill)

    assert explains(KAFKA, reads)
    assert not explains(KAFKA, reads, files)
    assert explains(CHECKPOINTS, waits)
    assert not explains(CHECKPOINTS, waits, reads)
    assert not explains(CLUSTER, reads)
    assert not explains(KAFKA), "what else is told of a query"
    assert explains(KAFKA, reads, problem="", at=100.0 + RETURN_SECONDS - 1), "its pause between two tries may be long"
    assert not explains(KAFKA, reads, problem="", at=100.0 + RETURN_SECONDS)
