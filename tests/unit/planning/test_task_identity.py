"""What a task's ids depend on, and what not."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.planning.steps import TaskIdentity

ME = TaskIdentity("orders__upgrade", "manual__2025", "hand_over")


def of(**changes: Any) -> TaskIdentity:
    told = {"dag_id": "orders__upgrade", "run_id": "manual__2025", "task_id": "hand_over", "map_index": -1}
    return TaskIdentity.of({"ti": SimpleNamespace(**{**told, **changes})})


def test_every_try_of_a_task_is_the_same_task() -> None:
    assert of(try_number=1) == of(try_number=2) == ME


@pytest.mark.parametrize(
    ("map_index", "by"),
    [
        (-1, "airflow:orders__upgrade/manual__2025/hand_over"),
        (None, "airflow:orders__upgrade/manual__2025/hand_over"),
        (0, "airflow:orders__upgrade/manual__2025/hand_over[0]"),
        (3, "airflow:orders__upgrade/manual__2025/hand_over[3]"),
    ],
)
def test_what_its_records_are_signed_with(map_index: int | None, by: str) -> None:
    assert of(map_index=map_index).by == by


def test_the_tasks_of_a_run_share_the_runs_prefix() -> None:
    soak = replace(ME, task_id="soak", map_index=1)
    assert ME.run == soak.run
    assert soak.by.startswith(ME.run)
    assert not replace(ME, run_id="manual__2025x").by.startswith(ME.run)


@pytest.mark.parametrize(
    "other",
    [
        replace(ME, dag_id="other"),
        replace(ME, run_id="other"),
        replace(ME, task_id="other"),
        replace(ME, map_index=0),
    ],
)
def test_another_task_has_other_requests_and_deployments(other: TaskIdentity) -> None:
    assert ME.request("up") == replace(ME).request("up")
    assert other.request("up") != ME.request("up")
    assert other.deployment("orders", "2") != ME.deployment("orders", "2")


def test_one_task_may_make_several_requests_by_their_purpose() -> None:
    assert len({ME.request(), ME.request("up"), ME.request("down"), ME.request("up", "down")}) == 4
    assert ME.deployment("orders", "2") != ME.deployment("orders", "3")
    assert ME.deployment("orders", "2").startswith("orders-2-")
