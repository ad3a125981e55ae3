"""Values that could not be read or were not declared are never taken for a default."""

from __future__ import annotations

import math

import pytest

from airflow_stream_provider.audit.check import NotRead, NotVerifiable
from airflow_stream_provider.audit.kafka.facts import Requirements, Settings, format_duration, partition_numbers
from tests.support.audited import facts, partition


def test_settings_are_read_as_text_number_flag_and_seconds() -> None:
    settings = Settings("topic orders", {"a": "true", "b": "1500", "c": "-1", "d": str(2**63 - 1)})
    assert settings.flag("a")
    assert not settings.flag("b")
    assert settings.number("b") == 1500
    assert settings.seconds("b") == 1.5
    assert settings.seconds("c") == settings.seconds("d") == math.inf


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (Settings("topic orders"), "The settings of topic orders could not be read: .*DESCRIBE_CONFIGS"),
        (Settings("broker 2", problem="Broker 2 does not answer."), "broker 2 could not be read: Broker 2 does not"),
        (Settings("topic orders", {"other": "1"}), "topic orders has no setting retention.ms"),
        (Settings("topic orders", {"retention.ms": None}), "topic orders has no setting retention.ms"),
    ],
)
def test_a_setting_that_is_not_known_is_not_read(settings: Settings, reason: str) -> None:
    with pytest.raises(NotRead, match=reason):
        settings.seconds("retention.ms")


def test_a_field_of_the_partitions_that_could_not_be_read_names_the_reason() -> None:
    known = facts(problems={"size": "Kafka did not return the sizes."})
    known.require_field("oldest")
    with pytest.raises(NotRead, match="Kafka did not return the sizes"):
        known.require_field("size")


def test_the_needed_retention_is_outage_and_time_to_catch_up() -> None:
    assert Requirements(outage=100.0, catch_up=5.0).retention_needed == 105.0
    assert Requirements(outage=100.0).retention_needed == 200.0
    with pytest.raises(NotVerifiable, match="outage="):
        _ = Requirements(catch_up=5.0).retention_needed


def test_declared_options_have_sparks_case_and_pythons_booleans() -> None:
    requirements = Requirements(source={"FailOnDataLoss": False, "maxOffsetsPerTrigger": 5})
    assert requirements.option("source", "failOnDataLoss") == "false"
    assert requirements.number("source", "maxoffsetspertrigger") == 5
    assert requirements.option("source", "other", "default") == "default"
    for client, reason in (("source", "was not declared for the source"), ("sink", "No settings of the sink")):
        with pytest.raises(NotVerifiable, match=reason):
            requirements.option(client, "other")


def test_partitions_are_listed_up_to_ten() -> None:
    assert partition_numbers([partition(4)]) == "partition 4"
    assert partition_numbers([partition(1), partition(2)]) == "partitions 1, 2"
    assert partition_numbers(partition(n) for n in range(12)) == "partitions 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.5, "0.5 s"), (90, "90 s"), (5400, "1.5 h"), (90000, "1.04 d"), (math.inf, "an unlimited time")],
)
def test_durations_have_one_unit(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
