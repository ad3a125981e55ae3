"""A YAML that cannot be used shows in the list of import errors, and takes no DAG of another stream away."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
SPEC = "name: {0}\napplication: apps/a.py\nversion: v1\ncluster: c\ncontrol: file:///d\n"


def airflow(home: Path, *command: str) -> tuple[int, list[dict[str, str]]]:
    """Return the exit code, and what was printed."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AIRFLOW_")}
    environment.update(
        AIRFLOW_HOME=str(home),
        AIRFLOW__CORE__LOAD_EXAMPLES="False",
        AIRFLOW__CORE__DAGS_FOLDER=str(home / "dags"),
        PYTHONPATH=str(ROOT),
    )
    words = [sys.executable, "-m", "airflow", *command, "--output", "json"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=600)
    found: list[dict[str, str]] = json.JSONDecoder().raw_decode(done.stdout[done.stdout.index("[{") :])[0]
    return done.returncode, found


def test_the_file_that_checks_has_an_import_error_and_no_other_dag_is_lost(tmp_path: Path, database: Path) -> None:
    folder = tmp_path / "dags" / "streams"
    folder.mkdir(parents=True)
    for name in ("streams.py", "check_streams.py"):
        (folder.parent / name).write_text((ROOT / "dags" / name).read_text())
    (folder / "orders.yaml").write_text(SPEC.format("orders"))
    (folder / "payments.yaml").write_text(SPEC.format("payments").replace("version", "versoin"))
    shutil.copy(database, tmp_path)
    code, [error] = airflow(tmp_path, "dags", "list-import-errors", "--local")
    assert code == 1
    assert error["filepath"].endswith("check_streams.py")
    assert "payments.yaml, line 3, versoin: there is no such field" in error["error"]
    dags = {dag["dag_id"] for dag in airflow(tmp_path, "dags", "list", "--local")[1]}
    of_orders = {f"orders__{verb}" for verb in ("upgrade", "operate", "retire")}
    assert dags == {*of_orders, "streams__watch", "streams__revive"}
