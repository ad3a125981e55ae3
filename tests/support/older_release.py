"""Releases with the runtime of format 1, as they were published when that was the newest one."""

from __future__ import annotations

import contextlib
import hashlib
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.control import releases
from airflow_stream_provider.control.releases import LAUNCHER, RUNTIME_ZIP, release_hash
from airflow_stream_provider.lifecycle.release import Release
from tests.support.other_side import OLDER

_make = releases.make_release


def _made(**parts: Any) -> tuple[Release, dict[str, bytes]]:
    made, files = _make(**parts)
    with zipfile.ZipFile(OLDER) as archive:
        files[LAUNCHER] = archive.read(f"airflow_stream_provider/runtime/{LAUNCHER}")
    files[RUNTIME_ZIP] = OLDER.read_bytes()
    contents = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    return replace(made, hash=release_hash(made.settings(), contents), format=1), files


@contextlib.contextmanager
def older_runtime() -> Iterator[None]:
    """Publish what is published within with the recorded runtime and its launcher."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(releases, "make_release", _made)
        yield
