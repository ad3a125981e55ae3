"""How long a new driver waits for its control log."""

from __future__ import annotations

import pytest

from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlLogReplaced, ControlUnavailable
from airflow_stream_provider.runtime import driver_control
from airflow_stream_provider.runtime.driver_control import within_reach
from airflow_stream_provider.runtime.jvm_topic import TopicDenied


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
    monkeypatch.setattr(driver_control, "RETRY_SECONDS", 0.0)


def test_a_log_that_is_out_of_reach_is_waited_for() -> None:
    assert within_reach(Log(*[ControlUnavailable("It is away.")] * 3).read) == "read"


def test_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_control, "OPEN_SECONDS", 0.0)
    with pytest.raises(ControlUnavailable, match="It is away"):
        within_reach(Log(*[ControlUnavailable("It is away.")] * 1000).read)


@pytest.mark.parametrize("error", [ControlLogDamaged, ControlLogReplaced, TopicDenied])
def test_what_only_a_person_can_mend_is_not_waited_for(error: type[Exception]) -> None:
    log = Log(error("No."), ControlUnavailable("It is away."))
    with pytest.raises(error):
        within_reach(log.read)
    assert len(log.errors) == 1
