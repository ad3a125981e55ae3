"""Which streams a control root in a folder holds, and which it held once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_stream_provider.control import FilesRoot
from airflow_stream_provider.control.files_root import WATCHED
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, SpecError


def test_a_stream_exists_once_it_was_created(tmp_path: Path) -> None:
    root = FilesRoot((tmp_path / "streams").as_uri())
    with pytest.raises(ControlUnavailable, match="is not a control root"):
        root.exists("orders")
    assert root.make()
    assert not root.make()
    root.check()
    assert not root.exists("orders")
    with pytest.raises(ControlUnavailable, match="There is no control log in"):
        root.store("orders")
    root.store("orders", create=True)
    assert root.exists("orders")
    assert root.store("orders").folder == tmp_path / "streams" / "orders"
    assert root.where("orders") == f"the folder {tmp_path}/streams/orders"
    assert root.log_id("orders") == root.store("orders").log_id()


def test_no_name_of_a_stream_leads_out_of_the_root(tmp_path: Path) -> None:
    root = FilesRoot(tmp_path.as_uri())
    root.make()
    for use in (root.exists, root.store, root.where, root.log_id):
        with pytest.raises(SpecError, match="cannot be a stream's name"):
            use("../orders")


def test_streams_are_noted_once_and_for_all(tmp_path: Path) -> None:
    root = FilesRoot(tmp_path.as_uri())
    root.make()
    assert root.seen() == frozenset()
    for name in ("orders", "payments", "orders"):
        root.note(name)
    assert root.seen() == {"orders", "payments"}


def test_a_link_in_the_place_of_the_notes_is_not_followed(tmp_path: Path) -> None:
    root = FilesRoot((tmp_path / "root").as_uri())
    root.make()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "root" / WATCHED).symlink_to(elsewhere)
    with pytest.raises(ControlUnavailable):
        root.note("orders")
    with pytest.raises(ControlUnavailable):
        root.seen()
    assert os.listdir(elsewhere) == []
