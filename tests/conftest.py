"""Tests beside each other: `pytest -n` keeps those of a folder or file in one process, in order, the longest first."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

HERE = Path(__file__).parent
REAL = HERE / "integration"
LIFECYCLE = HERE / "unit" / "lifecycle"  # with the simulation
REAL_FIRST = (REAL / name for name in ("runtime", "airflow", "plugin", "sensors"))
LONGEST_FIRST = (HERE / "system", *REAL_FIRST, LIFECYCLE, REAL, HERE)
# Those of Airflow, of the simulation and of users' scripts take longest of all, and share little; nor do those of the
# runtime that start drivers of their own.
BY_FILE = ("airflow", "lifecycle")
ALONE = ("scripts", "hand_over", "lease_watchdog", "offsets_group", "python39")
ONE_STACK = ("faults", "hand_over")  # of tests/system, the two that `make test` has tests of


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _turn(item.path.parent))


@functools.cache  # each worker asks for thousands of tests
def _turn(folder: Path) -> int:
    return next(n for n, first in enumerate(LONGEST_FIRST) if folder.is_relative_to(first))


@pytest.hookimpl(optionalhook=True)  # the environments of `make test-spark` have no xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    # Not by xdist's own groups: pytest 9.2 does not take the names that xdist 3.8 gives to the tests of a group.
    from xdist.scheduler import LoadScopeScheduling

    class ByFolder(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
        """What the tests of a folder share, such as a whole stack, is made once."""

        def _split_scope(self, nodeid: str) -> str:
            file = PurePosixPath(nodeid.partition("::")[0])
            folder = file.parent.name
            if folder == "stories":
                return nodeid.rpartition("[")[2].partition("-")[0].rstrip("]")  # a whole stack for each world
            alone = (
                folder in BY_FILE
                or (folder == "runtime" and file.stem.endswith(ALONE))
                or (folder == "system" and not file.stem.endswith(ONE_STACK))
            )
            return str(file if alone else file.parent)

    return ByFolder(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    # What takes longest shall not wait for the rest; a worker has no test of the whole stack after another one.
    if "PYTEST_XDIST_WORKER" in os.environ and item.get_closest_marker("system") is None:
        os.nice(max(0, 5 - os.nice(0)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    used = sys.modules.get("devstack.processes")
    if report.failed and used is not None:
        # What failed may be a process that nobody asked: a scheduler that ended, a broker that waits for its disk.
        for stack in used.running:
            for process in stack.last():
                state = "runs" if process.alive else f"ended with exit code {process.popen.returncode}"
                report.sections.append((f"{process.name} {state}", process.tail()))
    return report


@pytest.fixture(autouse=True, scope="session")
def locks_of_local_drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep them below the folder of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
        yield


@pytest.fixture(autouse=True)
def no_client_outlives_its_test() -> Iterator[None]:
    """Close the clients of Kafka that the hooks share in a process, and that nobody would close before its end."""
    yield
    used = sys.modules.get("airflow_stream_provider.hooks.control")  # not imported: without Airflow there is none
    if used is not None:
        used.close_roots()
