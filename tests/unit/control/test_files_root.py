"""Which streams a control root in a folder holds, and which it held once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_stream_provider.control import FilesRoot
from airflow_stream_provider.control.files_root import NOTE_LIMIT, WATCHED
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


def test_a_note_is_replaced_and_removed_and_outlives_its_stream(tmp_path: Path) -> None:
    root = FilesRoot(tmp_path.as_uri())
    with pytest.raises(ControlUnavailable, match="is not a control root"):
        root.noted()
    root.make()
    assert root.noted() == {}
    root.forget("orders")
    for name, data in (("orders", b"1"), ("payments", b"2"), ("orders", b"3"), (".p.streams__watch", b"{}")):
        root.note(name, data)
    assert root.noted() == {"orders": b"3", "payments": b"2", ".p.streams__watch": b"{}"}
    assert root.noted("orders", "../orders", "none") == {"orders": b"3"}
    root.forget("orders")
    root.forget("orders")
    assert set(root.noted()) == {"payments", ".p.streams__watch"}


def test_a_note_that_cannot_be_read_takes_no_other_away(tmp_path: Path) -> None:
    root = FilesRoot(tmp_path.as_uri())
    root.make()
    root.note("orders", b"1")
    (tmp_path / WATCHED / "large").write_bytes(b"x" * (NOTE_LIMIT + 1))
    (tmp_path / WATCHED / "folder").mkdir()
    (tmp_path / WATCHED / ".new.7").write_bytes(b"half a note of a writer that was killed")
    (tmp_path / WATCHED / "what is this").touch()
    assert root.noted() == {"orders": b"1", "large": b"", "folder": b""}


@pytest.mark.parametrize("name", ["../orders", "..", ".", "", "a/b", "a\0b"])
def test_no_name_of_a_note_leads_elsewhere(tmp_path: Path, name: str) -> None:
    root = FilesRoot(tmp_path.as_uri())
    root.make()
    for use in (root.forget, lambda name: root.note(name, b"x")):
        with pytest.raises(SpecError):
            use(name)


def test_a_link_in_the_place_of_the_notes_is_not_followed(tmp_path: Path) -> None:
    root = FilesRoot((tmp_path / "root").as_uri())
    root.make()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "root" / WATCHED).symlink_to(elsewhere)
    with pytest.raises(ControlUnavailable):
        root.note("orders", b"")
    with pytest.raises(ControlUnavailable):
        root.noted()
    assert os.listdir(elsewhere) == []
