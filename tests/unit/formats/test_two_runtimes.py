"""The runtime of format 1, as it was recorded, and today's, each in a process of its own, agree on control logs."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.control import FilesRoot
from airflow_stream_provider.control.releases import RUNTIME_ZIP, runtime_zip
from airflow_stream_provider.lifecycle.formats import FORMAT_OF
from tests.support import runtime_process
from tests.support.simulation.memory_store import MemoryStore
from tests.support.simulation.one_seed import simulate
from tests.support.stored_control import plant
from tests.support.stored_forms import FORMAT_1, check_meaning, recorded

# Seeds of the simulation whose logs both read: hand-overs, roll-backs and faults.
SEEDS = 6


def reports(archive: Path, urls: list[str]) -> Any:
    command = [sys.executable, "-I", runtime_process.__file__, str(archive), *urls]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def logs(folder: Path) -> list[str]:
    """The control roots of the recorded log, and of what the simulation has written."""
    roots = [folder / "recorded"]
    plant(recorded("control_folder"), roots[0])
    (roots[0] / "orders" / "incoming").mkdir()
    create = MemoryStore.create
    for seed in range(SEEDS):
        root = FilesRoot((folder / str(seed)).as_uri())
        root.make()
        store = root.store("orders", create=True)
        roots.append(root.folder)

        def noting(memory: MemoryStore, seq: int, data: bytes, store: Any = store) -> None:
            create(memory, seq, data)
            store.create(seq, data)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(MemoryStore, "create", noting)
            simulate(seed)
    return [root.as_uri() for root in roots]


def test_they_agree_on_state_decisions_and_rules(tmp_path: Path) -> None:
    newest = tmp_path / "newest.zip"
    newest.write_bytes(runtime_zip())
    urls = logs(tmp_path)
    older, newer = (reports(archive, urls) for archive in (FORMAT_1 / RUNTIME_ZIP, newest))
    for url in urls:
        one, two = older[url], newer[url]
        # An assertion with == would let pytest explain the difference for minutes.
        for part in ("after", "state", "heartbeats"):
            check_meaning(one[part], two[part], part)
        same = json.loads(one["saved"].split("\n")[0])["format"] == json.loads(two["saved"].split("\n")[0])["format"]
        assert not same or one["saved"] == two["saved"], "raise FORMAT in lifecycle/saved_state.py"
    after = recorded("control_folder", ".means")["after"]
    assert [each[:5] for each in newer[urls[0]]["after"]] == [each[2:] for each in after]
    assert {len(newer[url]["after"]) > 10 for url in urls} == {True}


def test_the_recorded_runtime_is_whole_and_knows_every_kind_of_its_format() -> None:
    with zipfile.ZipFile(FORMAT_1 / RUNTIME_ZIP) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}, "as `runtime_zip` makes it"
        code = archive.read("airflow_stream_provider/lifecycle/record.py").decode()
        packages = {name.split("/")[1] for name in archive.namelist()}
    assert packages == {"__init__.py", "lifecycle", "control", "checkpoint", "runtime"}
    assert all(f'= "{kind}"' in code for kind, format in FORMAT_OF.items() if format == 1)
