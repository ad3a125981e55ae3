"""A driver's agent on a control folder that hangs: a FUSE mount whose server never answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.namespaces import COMMAND, needs_fuse

ROOT = Path(__file__).parents[3]


@needs_fuse
@pytest.mark.parametrize("story", ["holder", "standby"])
def test_a_driver_outlives_a_control_folder_that_hangs(tmp_path: Path, story: str) -> None:
    command = [*COMMAND, sys.executable, "-m", "tests.support.hanging_disk", str(tmp_path), story]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("well again\n")
