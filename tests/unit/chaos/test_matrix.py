from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from chaos import matrix
from chaos.matrix import FAULTS, add, cell, cells_of, empty, happened, impossible, main, planned, possible
from chaos.plan import PROCESSES, Cell, cells
from chaos.states import STATES
from devstack.errors import StackError
from devstack.places import Pair
from tests.support.chaos_facts import fault

STANDBY = fault(1.0, kind="freeze", target="standby", state="ready")


PAIRS = [Pair(), Pair("kafka"), Pair(storage="hdfs"), Pair("kafka", "hdfs")]


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_every_cell_can_exist_or_says_why_not(pair: Pair) -> None:
    processes = (*PROCESSES, "storage") if pair.storage == "hdfs" else PROCESSES
    every = {cell(*names) for names in itertools.product(STATES, processes, FAULTS)}
    never = impossible(pair)
    assert set(possible(pair)) | never.keys() == every
    assert set(possible(pair)) & never.keys() == set()
    assert all(never.values())


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_the_plan_aims_at_every_cell_of_a_process_that_can_exist(pair: Pair) -> None:
    aimed = {cell(c.state, c.target, c.kind) for c in cells(pair) if c.target != "control"}
    assert aimed == {name for name in possible(pair) if name.endswith(("/kill", "/freeze"))}


def test_with_folders_there_are_226_cells() -> None:
    assert len(possible()) == 226


def test_a_control_log_in_kafka_fails_with_its_broker_and_says_so() -> None:
    kafka = Pair("kafka", "hdfs")
    assert not [name for name in possible(kafka) if name.endswith(("slow store", "full disk"))]
    assert impossible(kafka)["ready/holder/slow store"].startswith("the control log is in Kafka")
    assert {"ready/broker/kill", "ready/broker/freeze", "ready/storage/freeze"} <= set(possible(kafka))
    assert "lose it" in impossible(kafka)["ready/storage/kill"]
    assert not [name for name in possible() if "/storage/" in name]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (fault(1.0), ["running/holder/kill"]),
        (fault(1.0, between=False), ["running/holder/kill"]),
        (fault(1.0, between=True), []),
        (STANDBY, ["ready/standby/freeze"]),
        (fault(1.0, kind="torn_heartbeat"), []),
        (fault(1.0, kind="clock_jump"), []),
        (fault(1.0, kind="hang", target="control", seconds=5.0), ["running/holder/slow store"]),
        (
            fault(1.0, kind="away", target="control", state="down", seconds=50.0, drivers=["holder", "standby"]),
            ["down/standby/slow store"],
        ),
        (
            fault(1.0, id="met", kind="away", target="control", state="down", seconds=20.0, drivers=[]),
            ["down/triggerer/slow store", "down/task/slow store"],
        ),
        (
            fault(1.0, id="met", kind="away", target="control", state="down", seconds=19.0, drivers=[]),
            [],
        ),
        (
            fault(1.0, id="met", kind="away", target="control", seconds=20.0, drivers=[]),
            ["running/task/slow store"],
        ),
        (
            fault(1.0, kind="read_only", target="control", state="ready", seconds=5.0, drivers=["holder", "standby"]),
            ["ready/holder/full disk", "ready/standby/full disk"],
        ),
        ({"at": 1.0, "what": "upgrade", "kind": "good"}, []),
    ],
)
def test_the_cells_of_a_fault(line: dict[str, object], names: list[str]) -> None:
    healed = {"at": 60.0, "what": "healed", "id": "met", "users": ["holder", "task", "triggerer"]}
    assert cells_of([line, healed]) == dict.fromkeys(names, 1)


def test_the_page_has_the_states() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reliability.md").read_text()
    for state, says in STATES.items():
        assert f"| `{state}` | {says[0].lower()}{says[1:-1]} |" in page


def test_runs_add_up_and_a_repeated_one_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "build" / "cells.json"
    assert happened(path) == {}
    add([fault(1.0), fault(2.0)], seed=1, commit="a", path=path)
    add([STANDBY], seed=2, commit="a", path=path)
    assert add([fault(1.0)], seed=1, commit="a", path=path) == {"running/holder/kill": 1, "ready/standby/freeze": 1}
    assert add([fault(1.0)], seed=1, commit="b", path=path)["running/holder/kill"] == 2


def test_a_cell_that_never_happened_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(matrix, "CELLS", tmp_path / "cells.json")
    monkeypatch.setattr(matrix, "happened", lambda *_: dict.fromkeys(possible()[1:], 1))
    assert main() == 1
    out = capsys.readouterr().out
    assert f"1 of {len(possible())} cells never happened" in out
    assert f'CELLS="{possible()[0]}"' in out
    monkeypatch.setattr(matrix, "happened", lambda *_: dict.fromkeys(possible(), 1))
    assert main() == 0
    assert empty({}) == possible()
    out = capsys.readouterr().out
    assert "never happened" not in out
    assert "there is no standby" in out


def test_a_run_can_begin_with_the_cells_that_never_happened() -> None:
    every = planned(possible())
    assert set(every) == set(cells())
    assert planned(["ready/task/slow store", "ready/holder/slow store"]) == [Cell("ready", "control", "hang")]
    with pytest.raises(StackError, match="no cell of the matrix"):
        planned(["ready/nobody/kill"])
    with pytest.raises(StackError, match="no cell of the matrix"):
        planned(["down/holder/kill"])


def test_runs_of_other_pairs_are_counted_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, kafka = tmp_path / "cells.json", Pair("kafka", "hdfs")
    frozen = fault(1.0, kind="freeze", target="storage")
    add([fault(1.0)], seed=1, commit="a", path=path)
    assert add([frozen], seed=1, commit="a", pair=kafka, path=path) == {"running/storage/freeze": 1}
    assert add([frozen], seed=1, commit="a", pair=kafka, path=path) == {"running/storage/freeze": 1}
    assert happened(path) == {"running/holder/kill": 1}
    runs = json.loads(path.read_text())
    assert [(run["control"], run["storage"]) for run in runs] == [("file", "file"), ("kafka", "hdfs")]
    # The runs of before said nothing.
    path.write_text(json.dumps([{key: run[key] for key in ("seed", "commit", "cells")} for run in runs[:1]] + runs[1:]))
    assert happened(path) == {"running/holder/kill": 1}
    monkeypatch.setattr(matrix, "CELLS", path)
    monkeypatch.setattr(matrix, "happened", lambda _=None, pair=None: happened(path, pair or Pair()))
    assert main() == 1
    out = capsys.readouterr().out
    assert "1 runs with kafka+hdfs." in out
    assert f"{len(possible(kafka)) - 1} of {len(possible(kafka))} cells never happened with kafka+hdfs" in out
    assert "225 of 226 cells never happened." in out


def test_a_run_begins_only_with_cells_of_its_own() -> None:
    kafka = Pair("kafka", "hdfs")
    assert planned(["ready/storage/freeze"], kafka) == [Cell("ready", "storage", "freeze")]
    with pytest.raises(StackError, match="no cell of the matrix"):
        planned(["ready/holder/slow store"], kafka)
    with pytest.raises(StackError, match="no cell of the matrix"):
        planned(["ready/storage/freeze"])
