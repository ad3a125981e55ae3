"""Fixture: local drivers on a machine that does not mount a folder which Airflow's machine has."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_stream_provider.clusters import processes
from devstack.spark import bundled_spark
from tests.support.namespaces import COMMAND

# In the driver's view of this machine, an empty folder is mounted over another one.
SUBMIT = """#!/bin/sh
export SPARK_HOME={spark}
exec {unshare} sh -c 'mount -t tmpfs none "$0" && exec "$@"' {covered} $SPARK_HOME/bin/spark-submit "$@"
"""


@pytest.fixture
def without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Lets drivers that start from now on run on a machine that has another folder in the place of this one."""

    def cover(folder: Path) -> None:
        script = tmp_path / "spark" / "bin" / "spark-submit"
        script.parent.mkdir(parents=True)
        script.write_text(SUBMIT.format(spark=bundled_spark(), unshare=shlex.join(COMMAND), covered=folder))
        script.chmod(0o755)
        monkeypatch.setattr(processes, "home", lambda: tmp_path / "spark")

    return cover
