"""Which event a task's success is, and when it is none. That followers run is tested with a real Airflow."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import Asset, AssetAlias
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse
from airflow.sdk.execution_time.context import OutletEventAccessors
from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

from airflow_stream_provider.get_provider_info import get_provider_info
from airflow_stream_provider.operators.adopt import AdoptOperator
from airflow_stream_provider.operators.base import (
    StreamOperator,
    announce,
    event_of,
    hand_overs,
    sanitize_uri,
    stream_asset,
)
from airflow_stream_provider.operators.stream import (
    HandOverOperator,
    RollBackOperator,
    StartStreamOperator,
)
from airflow_stream_provider.operators.upgrade import JudgeRehearsalOperator
from airflow_stream_provider.operators.watch import ReviveStreamOperator
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.snapshots import BOTH, RUNNING, UPGRADED, snapshot
from tests.support.story import NEW, NEW_DEPLOYMENT


class Events:
    """What Airflow tells of earlier events of the alias; newest last."""

    def __init__(self, *extras: dict[str, Any], error: bool = False) -> None:
        self._extras = extras
        self._error = error

    def __getitem__(self, alias: AssetAlias) -> Events:
        assert alias == hand_overs("orders")
        return self

    def ascending(self, wanted: bool) -> Events:
        assert not wanted
        return self

    def limit(self, count: int) -> Any:
        if self._error:
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR))
        newest = [type("Event", (), {"extra": extra})() for extra in reversed(self._extras)]
        return newest[:count]


def announced(records: Any, *extras: dict[str, Any], done: Any = None, error: bool = False) -> list[Any]:
    context: Any = {"outlet_events": OutletEventAccessors(), "inlet_events": Events(*extras, error=error)}
    announce(context, snapshot(*records), done or {}, hand_overs("orders"))
    return list(context["outlet_events"][hand_overs("orders")].asset_alias_events)


def test_the_event_says_who_holds_and_how_large_the_gap_was() -> None:
    [event] = announced(UPGRADED, done={"epoch": 2, "gap_seconds": {"a": 0.5}})
    assert (event.dest_asset_key.name, event.dest_asset_key.uri) == ("stream://orders", "stream://orders/")
    assert event.extra == {
        "stream": "orders",
        "deployment": NEW_DEPLOYMENT,
        "version": "1",
        "release": snapshot(*UPGRADED).state.deployments[NEW_DEPLOYMENT].release.hash,
        "holder": NEW,
        "epoch": 2,
        "gap_seconds": {"a": 0.5},
    }


def test_a_gap_of_another_change_of_holder_is_not_told() -> None:
    assert event_of(snapshot(*UPGRADED), {"epoch": 1, "gap_seconds": {"a": 0.5}})["gap_seconds"] == {}


def test_what_was_told_last_is_not_told_again() -> None:
    told = event_of(snapshot(*UPGRADED), {})
    assert announced(UPGRADED, told) == []
    assert len(announced(UPGRADED, told, event_of(snapshot(*RUNNING), {}))) == 1
    assert announced(UPGRADED, told, {**told, "stream": "payments", "epoch": 7}) == [], "of a folder's revivals"
    # Of a control log that was made anew, which counts from 1 again.
    assert len(announced(RUNNING, told)) == 1


def test_where_earlier_events_cannot_be_read_it_is_told() -> None:
    assert len(announced(BOTH, error=True)) == 1


def test_outside_a_task_and_while_nobody_holds_there_is_no_event() -> None:
    announce({}, snapshot(*UPGRADED), {}, hand_overs("orders"))
    assert announced([]) == []


@pytest.mark.parametrize(
    "operator", [AdoptOperator, HandOverOperator, RollBackOperator, StartStreamOperator, ReviveStreamOperator]
)
def test_who_changes_the_holder_has_the_alias_and_keeps_what_a_user_says(spec: StreamSpec, operator: Any) -> None:
    mine = stream_asset("mine")
    task = operator(task_id="t", stream=spec, outlets=[mine])
    assert task.outlets == [mine, hand_overs("orders")]
    assert task.inlets == [hand_overs("orders")]


def test_nobody_else_has(spec: StreamSpec) -> None:
    assert JudgeRehearsalOperator(task_id="t", stream=spec).outlets == []


def test_airflow_knows_the_scheme_and_refuses_what_is_no_stream() -> None:
    manager: Any = ProvidersManagerTaskRuntime
    assert manager().asset_uri_handlers["stream"] is sanitize_uri
    assert manager().asset_factories["stream"](name="orders", extra=None) == stream_asset("orders")
    assert Asset("stream://orders").uri == Asset("stream://orders/").uri == stream_asset("orders").uri
    for wrong in ("stream://", "stream://orders/queries", "stream://orders?query=a", "stream://a b"):
        with pytest.raises(ValueError, match="stream"):
            Asset(wrong)


def test_what_an_operator_links_to_airflow_knows() -> None:
    """Airflow shows only links whose class a provider names."""
    named = set(get_provider_info()["extra-links"])
    links = {f"{type(link).__module__}.{type(link).__name__}" for link in StreamOperator.operator_extra_links}
    assert links == named
