"""Only what a fault has cut off may lie beside the releases."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.control.releases import make_release, store
from airflow_stream_provider.lifecycle.state import StreamState
from chaos.half_published import STEP_SECONDS, half_published
from chaos.leftovers import leftovers
from tests.support.chaos_facts import fault
from tests.support.pretended_webhdfs import PretendedWebHdfs, hdfs

__all__ = ["hdfs"]

AT, HEALED = 1000.0, {"at": 1020.0, "what": "healed", "id": "f1"}
FROZEN = (fault(AT, "freeze", "storage"), HEALED)


def leave(folder: Path, at: float, name: str = f"{'a' * 64}.{uuid.uuid4().hex}") -> Path:
    path = folder / f".{name}"
    path.mkdir(parents=True)
    os.utime(path, (at, at))
    return path


@pytest.mark.parametrize("at", [AT - STEP_SECONDS, AT + 10, 1020.0 + STEP_SECONDS])
def test_what_a_frozen_hdfs_has_cut_off_may_lie_there(hdfs: PretendedWebHdfs, at: float) -> None:
    releases = hdfs.place() / "releases"
    name = leave(hdfs.folder / "releases", at).name
    leave(hdfs.folder / "releases", at, f"time.{uuid.uuid4().hex}")
    allowed = half_published(releases, None, FROZEN)
    assert len(allowed) == 2
    assert allowed[releases / name] == (
        f"{releases / name} was left by a writer that fault f1 (freeze of storage) cut off. "
        "The clean-up of the watch removes it when it is a day old."
    )
    assert leftovers(StreamState(), {}, None, releases, []) != set()
    assert leftovers(StreamState(), {}, None, releases, [], allowed) == set()


@pytest.mark.parametrize("at", [AT - STEP_SECONDS - 5, 1020.0 + STEP_SECONDS + 5])
def test_what_was_written_at_another_time_may_not(tmp_path: Path, at: float) -> None:
    leave(tmp_path / "releases", at)
    assert half_published(tmp_path / "releases", None, FROZEN) == {}


@pytest.mark.parametrize("name", [f"{'a' * 64}.killed", f"{'a' * 63}.{'b' * 32}", "x", f"owner.{'b' * 32}"])
def test_what_no_publish_writes_may_not(tmp_path: Path, name: str) -> None:
    leave(tmp_path / "releases", AT, name)
    assert half_published(tmp_path / "releases", None, FROZEN) == {}


@pytest.mark.parametrize(
    ("journal", "may"),
    [
        ([fault(AT, "kill", "task"), HEALED], True),
        ([fault(AT, "kill", "scheduler"), HEALED], True),
        ([fault(AT, "hang", "control"), HEALED], True),
        ([fault(AT, "freeze", "storage")], True),
        ([fault(AT, "freeze", "task"), HEALED], False),
        ([fault(AT, "kill", "holder"), HEALED], False),
        ([fault(AT, "freeze", "broker"), HEALED], False),
        ([fault(AT, "torn_heartbeat", "control"), HEALED], False),
        ([{"at": AT, "what": "problem", "says": "x"}], False),
        ([], False),
    ],
)
def test_only_a_fault_of_who_writes_there_or_of_where_explains_it(
    tmp_path: Path, journal: list[dict[str, Any]], may: bool
) -> None:
    leave(tmp_path / "releases", AT - 1)
    assert bool(half_published(tmp_path / "releases", tmp_path, journal)) == may


def test_after_its_kill_nobody_writes(tmp_path: Path) -> None:
    leave(tmp_path / "releases", AT + 1)
    assert half_published(tmp_path / "releases", None, [fault(AT, "kill", "task"), HEALED]) == {}


def test_a_publish_that_is_really_cut_off_leaves_such_a_name(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("x = 1\n")
    (tmp_path / "releases").mkdir()
    release, files = make_release(version="1", application=tmp_path / "app.py")
    child = os.fork()
    if not child:

        class Dies(dict[str, bytes]):
            def items(self) -> Any:
                yield "app.py", files["app.py"]
                os._exit(0)

        try:
            store(tmp_path, release, Dies())
        finally:
            os._exit(1)
    os.waitpid(child, 0)
    [left] = (tmp_path / "releases").iterdir()
    journal = [fault(left.stat().st_mtime, "kill", "task"), HEALED]
    assert list(half_published(tmp_path / "releases", None, journal)) == [left]
