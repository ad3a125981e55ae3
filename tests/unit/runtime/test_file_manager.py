from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.runtime.file_manager import SETTING, check_file_manager

ABORTABLE = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"


def writer(**settings: str) -> Any:
    return SimpleNamespace(_spark=SimpleNamespace(conf=settings))


@pytest.mark.parametrize("name", [SETTING, f"spark.hadoop.{SETTING}"])
def test_the_manager_that_swallows_failed_writes_is_refused_by_name(name: str) -> None:
    with pytest.raises(SpecError, match="cannot run with AbortableStreamBasedCheckpointFileManager") as caught:
        check_file_manager(writer(**{name: ABORTABLE}))
    assert caught.value.next_step.startswith(f"Do not set {name}")


@pytest.mark.parametrize(
    "manager", ["", "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager"]
)
def test_others_are_not(manager: str) -> None:
    check_file_manager(writer(**({SETTING: manager} if manager else {})))
