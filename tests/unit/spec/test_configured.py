"""The section `[streams]` of Airflow's configuration: read in one place, with the defaults that people are shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.sdk.configuration import conf

import airflow_stream_provider
from airflow_stream_provider.get_provider_info import get_provider_info
from airflow_stream_provider.spec import configured
from airflow_stream_provider.spec.stream import WatchSpec

ROOT = Path(airflow_stream_provider.__file__).parent
OPTIONS: dict[str, Callable[[], float]] = {
    "watch_seconds": configured.watch_seconds,
    "delivery_seconds": configured.delivery_seconds,
}


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for option in OPTIONS:
        monkeypatch.delenv(f"AIRFLOW__STREAMS__{option.upper()}", raising=False)


def test_airflow_shows_each_option_with_the_default_that_is_used() -> None:
    options = get_provider_info()["config"]["streams"]["options"]
    assert {name: float(option["default"]) for name, option in options.items()} == {
        name: read() for name, read in OPTIONS.items()
    }
    # As `airflow config list` has it, from the installed package.
    assert {name: conf.get("streams", name) for name in options} == {n: each["default"] for n, each in options.items()}


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_is_used(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"AIRFLOW__STREAMS__{option.upper()}", "45")
    assert OPTIONS[option]() == 45


def test_a_stream_says_how_often_it_is_looked_at_and_otherwise_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__STREAMS__WATCH_SECONDS", "300")
    assert WatchSpec().schedule == 300
    assert WatchSpec(schedule=20).schedule == 20
    assert WatchSpec(schedule=None).schedule is None


@pytest.mark.parametrize(
    ("option", "value", "limits"),
    [
        ("watch_seconds", "4", "from 5 to 86400 seconds"),
        ("watch_seconds", "a minute", "from 5 to 86400 seconds"),
        ("watch_seconds", "nan", "from 5 to 86400 seconds"),
        ("delivery_seconds", "121", "from 1 to 120 seconds"),
        ("delivery_seconds", "0", "from 1 to 120 seconds"),
    ],
)
def test_a_value_that_cannot_be_is_an_error_in_the_log_and_the_watch_goes_on(
    option: str, value: str, limits: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    default = OPTIONS[option]()
    monkeypatch.setenv(f"AIRFLOW__STREAMS__{option.upper()}", value)
    assert OPTIONS[option]() == default
    assert f"{option} in the section [streams] of Airflow's configuration is {value!r}" in caplog.text
    assert limits in caplog.text


def test_it_is_read_in_one_place() -> None:
    asking = {str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if 'conf.get("streams"' in path.read_text()}
    assert asking == {"spec/configured.py"}
