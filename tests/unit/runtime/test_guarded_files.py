"""What a script that does not hold may do to the files of its stream by Python's own calls."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
ALLOWED = {"read", "make", "beside", "same beginning", "elsewhere", "own thread", "this one holds"}


def test_a_script_that_does_not_hold_changes_nothing_of_its_stream(tmp_path: Path) -> None:
    """Found by a review: the first lines of a new release removed the checkpoint of the one that ran."""
    command = [sys.executable, "-m", "tests.support.guarded_calls", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert {name for name, error in said["found"].items() if not error} == ALLOWED, said["found"]
    assert said["kept"] == ["kept", "kept"]
    # It says whose it is.
    refused = {name: error for name, error in said["found"].items() if name not in ALLOWED}
    assert all("of the stream orders, which orders-" in error for error in refused.values()), refused
    assert (
        "the output of the query lines of the stream orders, which orders-1 runs or ran last" in refused["write_text"]
    )
    assert "the checkpoint of the query more of the stream orders, which orders-2 runs" in refused["next holder"]
    assert "the checkpoint of the query late" in refused["rmtree of a late query"]
