"""Run a part of a test in a user and mount namespace of its own, where it may mount."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = ["unshare", "--user", "--map-root-user", "--mount", "--kill-child"]


def _allowed() -> bool:
    try:
        return subprocess.run([*COMMAND, "true"], capture_output=True, timeout=600, check=False).returncode == 0
    except FileNotFoundError:
        return False


_ALLOWED = sys.platform == "linux" and _allowed()

needs_namespaces = pytest.mark.skipif(not _ALLOWED, reason="no user namespaces here")
needs_fuse = pytest.mark.skipif(
    not (_ALLOWED and os.access("/dev/fuse", os.W_OK)), reason="no FUSE in a user namespace here"
)

ROOT = Path(__file__).parents[2]


def run_program(program: str, scratch: Path, seconds: float) -> str:
    """Run a Python program there, at the root of this repository; return what it printed.

    :param scratch: a folder for it, as `SCRATCH` in its environment.
    :param seconds: in which it has to end, though threads of it may hang.
    """
    done = subprocess.run(
        [*COMMAND, sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "SCRATCH": str(scratch)},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout
