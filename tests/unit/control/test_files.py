"""The store in a folder: exclusive numbers, whole records, and an error whenever it cannot be read."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.control import make_root, open_log
from airflow_stream_provider.control.files import STATE_LIMIT, FilesStore
from airflow_stream_provider.control.log import ControlLog, make_record
from airflow_stream_provider.lifecycle.errors import (
    ControlUnavailable,
    Damaged,
    SeqTaken,
    SpecError,
)
from airflow_stream_provider.lifecycle.heartbeat import HEARTBEAT_LIMIT
from airflow_stream_provider.lifecycle.record import MAX_BYTES

NAME = "orders-1-aaaa.00000001"


@pytest.fixture
def store(tmp_path: Path) -> FilesStore:
    make_root(tmp_path.as_uri())
    made = FilesStore(tmp_path / "orders")
    made.initialise()
    return made


def left_over(store: FilesStore) -> list[str]:
    return sorted(path.name for path in (store.folder / "incoming").iterdir())


def test_a_number_is_created_once(store: FilesStore) -> None:
    store.create(1, b"first")
    with pytest.raises(SeqTaken):
        store.create(1, b"second")
    assert (store.read(1), store.read(2)) == (b"first", None)
    assert [path.name for path in (store.folder / "log").iterdir()] == ["00000000000000000001.json"]
    assert left_over(store) == []


def test_the_first_record_tells_a_log_from_any_other(store: FilesStore) -> None:
    assert store.origin() == ""
    log, release = ControlLog(store, "orders"), {"version": "1", "hash": "a" * 64}
    for seq in range(2):
        log.append(make_record("declared", "a test", deployment=f"orders-{seq}", release=release), seq)
    assert store.origin() == log.records()[0].nonce
    (store.folder / "log" / "00000000000000000001.json").write_bytes(b"damaged")
    assert store.origin() == "", "a damaged one does not make it another log"
    store.folder.rename(store.folder.with_name("unmounted"))
    with pytest.raises(ControlUnavailable):
        store.origin()


def test_the_id_of_a_log_is_there_before_its_first_record_and_stays(store: FilesStore) -> None:
    made = store.log_id()
    assert re.fullmatch("[0-9a-f]{32}", made)
    store.initialise()
    store.create(1, b"first")
    assert FilesStore(store.folder).log_id() == made
    assert left_over(store) == []
    other = FilesStore(store.folder.with_name("payments"))
    other.initialise()
    assert other.log_id() != made
    store.folder.rename(store.folder.with_name("unmounted"))
    with pytest.raises(ControlUnavailable):
        store.log_id()


def test_of_two_ids_the_first_counts(store: FilesStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process makes it between the look and the write of this one."""
    create = FilesStore._create

    def later(self: FilesStore, path: Path, data: bytes) -> None:
        create(self, path, b"1a2b3c4d" * 4)
        create(self, path, data)

    monkeypatch.setattr(FilesStore, "_create", later)
    assert store.log_id() == "1a2b3c4d" * 4


@pytest.mark.parametrize("text", [b"", b"1a2b", b"../../etc", b"1a2b3c4d" * 4 + b"\n"])
def test_what_is_no_id_is_refused(store: FilesStore, text: bytes) -> None:
    (store.folder / "id").write_bytes(text)
    with pytest.raises(Damaged, match="does not hold 32 hex digits"):
        store.log_id()
    assert (store.folder / "id").read_bytes() == text


@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "huge"])
def test_what_is_no_file_for_an_id_is_neither_read_nor_replaced(store: FilesStore, tmp_path: Path, kind: str) -> None:
    path = store.folder / "id"
    (tmp_path / "elsewhere").write_text("1a2b3c4d" * 4)
    if kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.touch()
        os.truncate(path, 2**40)
    with pytest.raises(Damaged, match=r"id is (not a regular file|larger than)"):
        store.log_id()
    assert left_over(store) == []


def test_the_next_number_is_that_of_a_record(store: FilesStore) -> None:
    assert store.next_number(0) is None
    for seq in (1, 2, 11):
        store.create(seq, b"a record")
    for name in ("lost+found", ".nfs0001", "99999999999999999999.json.swp"):
        (store.folder / "log" / name).touch()
    found = [store.next_number(seq) for seq in (0, 1, 2, 10, 11)]
    assert found == [1, 2, 11, 11, None]
    store.folder.rename(store.folder.with_name("unmounted"))
    with pytest.raises(ControlUnavailable):
        store.next_number(0)


def test_initialising_again_changes_nothing(store: FilesStore) -> None:
    store.create(1, b"first")
    store.initialise()
    assert store.read(1) == b"first"


def test_a_missing_folder_is_unavailable_and_not_an_empty_log(store: FilesStore) -> None:
    store.create(1, b"first")
    store.folder.rename(store.folder.with_name("unmounted"))
    calls: tuple[Callable[[], object], ...] = (
        lambda: store.read(1),
        lambda: store.read(2),
        lambda: store.create(2, b"second"),
        lambda: store.put_heartbeat(NAME, b"{}"),
        lambda: store.heartbeat(NAME),
        store.heartbeats,
        store.saved_state,
        store.topic_ids,
        lambda: store.put_topic_ids(b"{}"),
        store.check,
    )
    for call in calls:
        with pytest.raises(ControlUnavailable):
            call()
    store.folder.with_name("unmounted").rename(store.folder)
    store.create(2, b"second")
    assert store.read(2) == b"second"


def test_the_saved_state_is_replaced_as_a_whole(store: FilesStore) -> None:
    assert store.saved_state() is None
    store.put_saved_state(b"one")
    store.put_saved_state(b"two")
    assert (store.saved_state(), left_over(store)) == (b"two", [])


def test_files_of_killed_writers_are_removed_once_their_number_is_taken(store: FilesStore) -> None:
    incoming = store.folder / "incoming"
    for seq in (1, 2):
        (incoming / f"{seq:020d}.json.killed").write_bytes(b"tor")
    store.create(1, b"first")
    assert left_over(store) == [f"{2:020d}.json.killed"]
    store.create(2, b"second")
    assert left_over(store) == []


@pytest.mark.parametrize("linked", ["orders", "orders/incoming"])
def test_files_elsewhere_are_not_removed_through_a_link(store: FilesStore, tmp_path: Path, linked: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    store.folder.rename(elsewhere) if linked == "orders" else elsewhere.mkdir()
    reports = elsewhere / "incoming" if linked == "orders" else elsewhere
    (reports / "0.csv").write_bytes(b"mine")
    if linked != "orders":
        (tmp_path / linked).rmdir()
    (tmp_path / linked).symlink_to(elsewhere)
    store.create(1, b"first")
    assert [path.name for path in reports.iterdir()] == ["0.csv"]


@pytest.mark.parametrize("name", ["", "log", "incoming", "heartbeats", "releases"])
def test_a_folder_that_was_exchanged_for_a_link_is_unavailable(store: FilesStore, tmp_path: Path, name: str) -> None:
    folder = store.folder / name
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ControlUnavailable, match=rf"{folder} is a symbolic link"):
        store.check()


def test_a_slow_writer_whose_file_was_removed_gets_an_error(store: FilesStore, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def slow(source: Path, target: Path) -> None:
        monkeypatch.setattr(os, "link", link)
        store.create(1, b"quicker")
        link(source, target)

    monkeypatch.setattr(os, "link", slow)
    with pytest.raises((SeqTaken, ControlUnavailable)):
        store.create(1, b"slow")
    assert store.read(1) == b"quicker"


def test_what_a_killed_writer_of_heartbeats_left_is_in_nobodys_way(store: FilesStore) -> None:
    (store.folder / "incoming" / f"new.{NAME}.json.{'0' * 32}").write_bytes(b"{tor")
    assert store.heartbeats() == []
    store.put_heartbeat(NAME, b"{}")
    assert [path.name for path in (store.folder / "heartbeats").iterdir()] == [f"{NAME}.json"]


def test_no_name_that_can_be_foreseen_is_written_through(store: FilesStore, tmp_path: Path) -> None:
    """A symbolic link with the name of a heartbeat, of its temporary file of old, or of the saved state."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"mine")
    beat = store.folder / "heartbeats" / f"{NAME}.json"
    for path in (beat, beat.with_name(f".{beat.name}.new"), store.folder / "state.jsonl"):
        path.symlink_to(secret)
    store.put_heartbeat(NAME, b"{}")
    store.put_saved_state(b"{}")
    assert secret.read_bytes() == b"mine"
    assert (store.heartbeat(NAME), store.saved_state()) == (b"{}", b"{}")


def read_each(store: FilesStore) -> dict[Path, tuple[Callable[[], bytes | None], int]]:
    return {
        store.folder / "heartbeats" / f"{NAME}.json": (lambda: store.heartbeat(NAME), HEARTBEAT_LIMIT),
        store.folder / "state.jsonl": (store.saved_state, STATE_LIMIT),
        store.folder / "topics.json": (store.topic_ids, MAX_BYTES),
    }


def test_what_is_too_large_is_not_loaded(store: FilesStore) -> None:
    for path, (read, limit) in read_each(store).items():
        path.touch()
        os.truncate(path, limit)
        assert len(read() or b"") == limit
        os.truncate(path, 2**34)  # sparse; loading it would take all memory
        with pytest.raises(Damaged, match=f"{path.name} is larger than {limit} bytes"):
            read()


def test_what_is_no_regular_file_is_not_read(store: FilesStore, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"{}")
    for path, (read, _) in read_each(store).items():
        for make in (lambda p: p.symlink_to(elsewhere), os.mkfifo, Path.mkdir):
            make(path)
            with pytest.raises(Damaged, match=f"{path.name} is not a regular file"):
                read()
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


@pytest.mark.parametrize(
    "make",
    [lambda p: p.symlink_to(p), os.mkfifo, Path.mkdir, lambda p: (p.touch(), os.truncate(p, 2**34))],
    ids=["link", "pipe", "folder", "sparse"],
)
def test_what_cannot_be_a_record_is_one_that_nobody_can_read(store: FilesStore, make: Callable[[Path], Any]) -> None:
    make(store.folder / "log" / f"{1:020d}.json")
    assert store.read(1) == b""


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_group_can_write_and_others_can_do_nothing_whatever_the_umask_is(tmp_path: Path, umask: int) -> None:
    root = tmp_path / "root"
    before = os.umask(umask)
    try:
        make_root(root.as_uri())
        store = FilesStore(root / "orders")
        store.initialise()
        store.create(1, b"{}")
        store.put_heartbeat(NAME, b"{}")
        store.put_saved_state(b"{}")
        store.put_topic_ids(b"{}")
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode & 0o7777 for path in [root, *root.rglob("*")]}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o2770}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o660}
    assert len(modes) == 11


@pytest.mark.parametrize("name", ["../../etc/passwd", "orders", "orders.1", "", "orders-1.00000001/x"])
def test_a_heartbeat_with_an_invalid_name_is_refused(store: FilesStore, name: str) -> None:
    with pytest.raises(SpecError):
        store.put_heartbeat(name, b"{}")


def test_a_file_system_where_both_creates_win_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def overwrite(source: Path, target: Path) -> None:
        target.write_bytes(source.read_bytes())

    monkeypatch.setattr(os, "link", overwrite)
    make_root(tmp_path.as_uri())
    store = FilesStore(tmp_path / "orders")
    with pytest.raises(ControlUnavailable, match="2 succeeded instead of one") as refusal:
        store.initialise()
    assert "hard links" in refusal.value.next_step
    with pytest.raises(ControlUnavailable):
        store.check()


def test_a_file_system_without_hard_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(source: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", unsupported)
    make_root(tmp_path.as_uri())
    with pytest.raises(ControlUnavailable, match=r"0 succeeded instead of one \(Operation not permitted\)"):
        FilesStore(tmp_path / "orders").initialise()


def test_a_read_without_a_new_record_costs_one_open_and_one_stat(
    store: FilesStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create(1, b"first")
    calls: list[str] = []
    me = threading.current_thread()

    def counting(name: str, original: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() is me:  # and none that an earlier test has left in this process
                calls.append(name)
            return original(*args, **kwargs)

        return call

    for name in ("open", "stat", "listdir", "scandir"):
        monkeypatch.setattr(os, name, counting(name, getattr(os, name)))
    assert store.read(2) is None
    assert calls == ["open", "stat"]


def test_opening_a_log(tmp_path: Path) -> None:
    make_root(tmp_path.as_uri())
    with pytest.raises(ControlUnavailable, match="There is no control log"):
        open_log(tmp_path.as_uri(), "orders")
    open_log(tmp_path.as_uri(), "orders", create=True)
    assert open_log(tmp_path.as_uri(), "orders").refresh().seq == 0
    with pytest.raises(SpecError):
        open_log(tmp_path.as_uri(), "../orders", create=True)
