"""What every test of this folder may have: a control log in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_stream_provider.control import ControlLog
from tests.support.control_root import new_log


@pytest.fixture
def log(tmp_path: Path) -> ControlLog:
    return new_log((tmp_path / "control").as_uri())
