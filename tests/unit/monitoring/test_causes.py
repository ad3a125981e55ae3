"""What many streams need: one incident, whose text names them, and what it explains."""

from __future__ import annotations

from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.monitoring.causes import FAILING_SECONDS, RETURN_SECONDS, Cause, explained, named
from airflow_stream_provider.monitoring.health import TRANSIENT_SECONDS
from airflow_stream_provider.monitoring.incidents import IncidentKind

KAFKA, CLUSTER, CONTROL = IncidentKind.KAFKA, IncidentKind.CLUSTER, IncidentKind.CONTROL
MANY = [f"s{number:02d}" for number in range(12)]


def test_the_text_says_how_many_streams_and_names_the_first() -> None:
    assert named(reversed(MANY)) == "12 streams (s00, s01, s02, s03, s04 and 7 more)"
    assert named(["orders"]) == "1 stream (orders)"
    assert named([]) == "no stream"
    symptom = Cause(KAFKA, "kafka_default", MANY, "Kafka does not answer.", ["s03"]).symptom
    assert symptom.description == (
        "Kafka does not answer. The lag is unknown of 12 streams (s00, s01, s02, s03, s04 and 7 more). "
        "Down: 1 stream (s03)."
    )
    assert Cause(KAFKA, "kafka_default", MANY).subject == "Kafka kafka_default"


def test_people_are_told_as_soon_as_of_a_stream() -> None:
    def patience(kind: IncidentKind, *down: str) -> float:
        return Cause(kind, "x", MANY, "It is away.", down).symptom.for_at_least

    assert patience(KAFKA) == patience(KAFKA, "s00") == patience(CLUSTER) == TRANSIENT_SECONDS
    assert patience(CLUSTER, "s00") == 0.0
    assert patience(CONTROL) == FAILING_SECONDS
    assert Cause(CONTROL, "x", MANY).symptom.health is Health.PASS


def test_it_explains_what_its_absence_does_and_for_a_while_that_streams_are_down() -> None:
    down, lag = IncidentKind.DOWN, IncidentKind.LAG_UNKNOWN
    assert explained(KAFKA, None, "away", 0.0) >= {down, lag}
    assert explained(CLUSTER, None, "away", 0.0) == {down}
    assert explained(CONTROL, None, "away", 0.0) >= {down, IncidentKind.WATCH}
    assert explained(KAFKA, None, "", 0.0) == frozenset()
    assert explained(KAFKA, 100.0, "", 100.0 + RETURN_SECONDS - 1) == {down}
    assert explained(KAFKA, 100.0, "", 100.0 + RETURN_SECONDS) == frozenset()
