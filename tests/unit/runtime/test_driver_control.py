"""How long a new driver waits for its control log."""

from __future__ import annotations

import math

import pytest
from pyspark import SparkContext

from airflow_stream_provider.control.topic import READ_BYTES, Fetched
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlLogReplaced, ControlUnavailable
from airflow_stream_provider.runtime import jvm_topic, places
from airflow_stream_provider.runtime.jvm_topic import TopicDenied
from airflow_stream_provider.runtime.places import open_control_log, within_reach
from tests.support.simulated_topic import SimulatedLog, SimulatedTopic


class Log:
    """Raises these errors, one at each read, and then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    def read(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "read"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "RETRY_SECONDS", 0.0)


def test_a_log_that_is_out_of_reach_is_waited_for() -> None:
    assert within_reach(Log(*[ControlUnavailable("It is away.")] * 3).read) == "read"


def test_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "OPEN_SECONDS", 0.0)
    with pytest.raises(ControlUnavailable, match="It is away"):
        within_reach(Log(*[ControlUnavailable("It is away.")] * 1000).read)


@pytest.mark.parametrize("error", [ControlLogDamaged, ControlLogReplaced, TopicDenied])
def test_what_only_a_person_can_mend_is_not_waited_for(error: type[Exception]) -> None:
    log = Log(error("No."), ControlUnavailable("It is away."))
    with pytest.raises(error):
        within_reach(log.read)
    assert len(log.errors) == 1


def test_a_driver_that_has_begun_waits_for_a_log_that_a_person_restores() -> None:
    assert within_reach(Log(*[ControlLogDamaged("It has lost its beginning.")] * 3).read, math.inf) == "read"
    with pytest.raises(TopicDenied):
        within_reach(Log(TopicDenied("No.")).read, math.inf)


def test_the_clients_of_a_driver_that_starts_in_an_outage_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has threads and connections in the JVM, and the driver tries for minutes."""
    opened: list[str] = []

    class Topic(SimulatedTopic):
        """Can be opened at the second try, and read at the fourth."""

        def __init__(self, name: str, settings: object) -> None:
            super().__init__(SimulatedLog())
            opened.append(name)
            if len(opened) == 1:
                raise ControlUnavailable("It is away.")
            self.tries = 3

        def read(self, offset: int, size: int = READ_BYTES) -> Fetched:
            self.tries -= 1
            if self.tries >= 0:
                raise ControlUnavailable("It is away.")
            return super().read(offset, size)

    monkeypatch.setattr(jvm_topic, "JvmTopic", Topic)
    monkeypatch.setattr(places, "client_settings", lambda brokers: None)
    monkeypatch.setattr(SparkContext, "_ensure_initialized", lambda: None)
    log = open_control_log("kafka://kafka/streams", "orders")
    assert log.state.seq == 0
    assert opened == ["streams.orders"] * 2
