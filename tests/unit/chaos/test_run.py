"""What a run says of itself. What it does, tests/system/test_chaos.py shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.run import Run
from devstack.places import Pair


@pytest.mark.parametrize(
    ("pair", "where"),
    [
        (Pair(), ""),
        (Pair("kafka"), " CONTROL=kafka STORAGE=file"),
        (Pair("kafka", "hdfs"), " CONTROL=kafka STORAGE=hdfs"),
    ],
    ids=str,
)
def test_the_line_that_runs_the_same_again_says_where_log_and_files_were(
    pair: Pair, where: str, tmp_path: Path
) -> None:
    cells = ["ready/broker/kill", "down/task/kill"]
    run = Run(7, 60.0, 200, cells, tmp_path / "run", tmp_path / "report.json", print, pair)
    assert run.replay == (
        f"git checkout {run.commit} && "
        f'make chaos MINUTES=60 SEED=7 RATE=200{where} CELLS="ready/broker/kill,down/task/kill"'
    )
    assert run.cells == tmp_path / "cells.json"
