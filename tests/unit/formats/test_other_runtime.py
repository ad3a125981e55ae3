"""A runtime of format 1 and today's, each in a process of its own, on one control log: deploy, hand over, roll back.

The drivers are agents without Spark; tests/integration/runtime/test_versions.py has real ones. The same on a topic:
tests/integration/control/test_other_runtime.py.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.control.releases import RUNTIME_ZIP, publish, verify
from airflow_stream_provider.lifecycle.formats import FORMAT_OF
from devstack.control_folder import folder_of
from tests.support.control_root import new_log
from tests.support.older_release import older_runtime
from tests.support.other_side import OLDER, OtherSide, side
from tests.support.recorded import WHAT_TO_DO, value
from tests.support.two_versions import VERSIONS, hand_over_and_back

__all__ = ["side"]

Start = Callable[[str, str], OtherSide]


@pytest.fixture
def log(tmp_path: Path) -> ControlLog:
    return new_log((tmp_path / "control").as_uri())


@pytest.mark.parametrize(("airflow", "one", "two"), VERSIONS)
def test_two_drivers_hand_over_and_back_and_both_sides_see_the_same(
    log: ControlLog, side: Start, airflow: str, one: str, two: str
) -> None:
    url = folder_of(log).parent.as_uri()
    hand_over_and_back(log, lambda version: side(version, url), airflow, one, two)


@pytest.mark.parametrize("version", ["older", "newer"])
def test_the_options_that_a_launcher_gets_are_known_to_it(log: ControlLog, side: Start, version: str) -> None:
    """Today's Airflow submits an older release with the launcher that was published with it."""
    launcher = side(version, folder_of(log).parent.as_uri())
    for arguments in value("launcher.json"):
        found = launcher("launcher", arguments=arguments)
        assert (found["stream"], found["script"]) == ("orders", "orders.py"), WHAT_TO_DO


def test_an_older_release_is_published_as_it_was(log: ControlLog, tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text("")
    with older_runtime():
        older = publish(folder_of(log), version="1", application=tmp_path / "orders.py")
    assert (older.folder(folder_of(log)) / RUNTIME_ZIP).read_bytes() == OLDER.read_bytes()
    verify(older.folder(folder_of(log)), older)
    assert "format" not in older.to_json()


def test_the_recorded_runtime_knows_every_kind_of_its_format() -> None:
    with zipfile.ZipFile(OLDER) as archive:
        record = archive.read("airflow_stream_provider/lifecycle/record.py").decode()
        packages = {name.split("/")[1] for name in archive.namelist()}
    assert packages == {"__init__.py", "lifecycle", "control", "checkpoint", "runtime"}
    assert all(f'= "{kind}"' in record for kind, format in FORMAT_OF.items() if format == 1)
