"""Run a part of a test in a user and mount namespace of its own, where it may mount."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

COMMAND = ["unshare", "--user", "--map-root-user", "--mount", "--kill-child"]


def _allowed() -> bool:
    try:
        return subprocess.run([*COMMAND, "true"], capture_output=True, timeout=60, check=False).returncode == 0
    except FileNotFoundError:
        return False


_ALLOWED = sys.platform == "linux" and _allowed()

needs_namespaces = pytest.mark.skipif(not _ALLOWED, reason="no user namespaces here")
needs_fuse = pytest.mark.skipif(
    not (_ALLOWED and os.access("/dev/fuse", os.W_OK)), reason="no FUSE in a user namespace here"
)
