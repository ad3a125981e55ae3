"""The launcher refuses a deployment that has ended, before it imports anything of the release."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_stream_provider.control import open_log
from airflow_stream_provider.runtime.launcher import main
from tests.support.story import OLD, OLD_DEPLOYMENT, PREPARED, failed, write


def launch(control: Path, deployment: str) -> int:
    arguments = ["--control", control.as_uri(), "--stream", "orders", "--deployment", deployment, "app.py"]
    return main(arguments)


def test_a_deployment_that_has_failed_is_not_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(open_log(tmp_path.as_uri(), "orders", create=True), *PREPARED, failed(OLD))
    assert launch(tmp_path, OLD_DEPLOYMENT) == 0
    assert capsys.readouterr().out == f"Deployment {OLD_DEPLOYMENT} is failed: nothing to do.\n"


def test_a_deployment_that_is_not_declared_is_not_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_log(tmp_path.as_uri(), "orders", create=True)
    assert launch(tmp_path, "orders-9-00000000") == 0
    assert capsys.readouterr().out == "Deployment orders-9-00000000 is not declared: nothing to do.\n"
