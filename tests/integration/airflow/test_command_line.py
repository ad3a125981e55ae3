"""`airflow streams` as a person calls it: the real command line, on a stream that a real Airflow has deployed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.airflow_world import World

ROOT = Path(__file__).parents[3]


def call(environment: Mapping[str, str], *words: str) -> tuple[int, Any]:
    """Return the exit code, and the JSON that was printed."""
    command = [sys.executable, "-m", "airflow", "streams", *words, "--json"]
    done = subprocess.run(
        command, env=dict(environment), cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.system
def test_an_upgrade_is_told_and_what_the_next_one_would_change(world: World) -> None:
    world.deploy("1")
    world.upgrade("2")
    environment = world.airflow.environment
    code, events = call(environment, "history", world.name)
    assert code == 0
    assert [(event["what"], event["version"]) for event in events] == [
        ("wanted", "1"),
        ("deployed", "1"),
        ("stood_by", "1"),
        ("wanted", "1"),
        ("started", "1"),
        ("wanted", "2"),
        ("deployed", "2"),
        ("stood_by", "2"),
        ("wanted", "2"),
        ("handed_over", "2"),
    ]
    last = events[-1]
    assert last["by"].startswith(f"airflow:{world.name}__upgrade/")
    assert last["by"].endswith("/hand_over")
    assert set(last["gap_seconds"]) == {"enrich", "totals"}
    assert last["free_seconds"] >= 0
    assert call(environment, "history", world.name, "--last", "1") == (0, [last])

    code, found = call(environment, "diff", world.name)
    assert (code, [each["field"] for each in found["differences"]]) == (1, ["release", "version"])
    world.yaml.write_text(world.yaml.read_text().replace('version: "1"', 'version: "2"'))
    code, found = call(environment, "diff", world.name)
    assert (code, found["same"], found["running"]["release"]) == (0, True, found["yaml"]["release"])


def test_a_folder_is_checked_by_an_airflow_that_has_neither_connections_nor_a_database(tmp_path: Path) -> None:
    for name in ("streams", "apps"):
        (tmp_path / "dags" / name).mkdir(parents=True)
    for name in ("streams/orders.yaml", "apps/orders.py", "apps/scoring.py"):
        (tmp_path / "dags" / name).write_bytes((ROOT / "dags" / name).read_bytes())
    bare = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
    nowhere = tmp_path / "no" / "airflow.db"
    bare |= {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{nowhere}",
        "PYTHONPATH": str(ROOT),
    }
    folder = str(tmp_path / "dags" / "streams")
    code, found = call(bare, "validate", folder)
    assert (code, [warning["field"] for warning in found.pop("warnings")]) == (0, ["notify"])
    assert found == {"files": ["orders.yaml"], "streams": ["orders"], "errors": []}
    (tmp_path / "dags" / "apps" / "scoring.py").unlink()
    code, found = call(bare, "validate", folder)
    assert (code, found["streams"], [error["field"] for error in found["errors"]]) == (1, [], ["py_files.0"])
    assert not nowhere.parent.exists()
