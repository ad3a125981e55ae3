from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_stream_provider.control.root import make_root
from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from airflow_stream_provider.monitoring.seen_streams import FOLDER, gone, note, seen


def test_streams_are_noted_once_and_for_all(tmp_path: Path) -> None:
    make_root(tmp_path.as_uri())
    assert seen(tmp_path) == frozenset()
    for name in ("orders", "payments", "orders"):
        note(tmp_path, name)
    assert seen(tmp_path) == {"orders", "payments"}
    assert "an earlier look of the watch has seen" in str(gone(tmp_path / "orders"))


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    make_root((tmp_path / "root").as_uri())
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "root" / FOLDER).symlink_to(elsewhere)
    with pytest.raises(ControlUnavailable):
        note(tmp_path / "root", "orders")
    with pytest.raises(ControlUnavailable):
        seen(tmp_path / "root")
    assert os.listdir(elsewhere) == []
