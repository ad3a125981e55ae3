"""Lines that are appended: bounded, and no name in a folder that others may write is followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_stream_provider.control.files import FilesStore
from airflow_stream_provider.control.root import make_root
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, Damaged
from airflow_stream_provider.monitoring.sample_file import KEPT, MOST, NAME, append, lines, shorten, tail


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_root(tmp_path.as_uri())
    store = FilesStore(tmp_path / "orders")
    store.initialise()
    return store.folder


def test_the_newest_stay_and_nothing_else_is_left(folder: Path) -> None:
    for number in range(KEPT + 3):
        append(folder, b"%d" % number)
    assert len(lines(folder)) == KEPT + 3
    shorten(folder)
    kept = lines(folder)
    assert (len(kept), kept[0], kept[-1]) == (KEPT, b"3", b"%d" % (KEPT + 2))
    assert not list((folder / "incoming").iterdir())
    append(folder, b"new")
    assert tail(folder, 100)[-1] == b"new"


def test_a_file_that_is_too_large_is_halved_by_who_appends(folder: Path) -> None:
    line = b"x" * 2**18
    for _ in range(MOST // 2**18 + 1):
        append(folder, line)
    assert (folder / NAME).stat().st_size < MOST
    assert set(lines(folder)) == {line}


def test_one_that_nobody_of_us_wrote_is_cut_down(folder: Path) -> None:
    (folder / NAME).touch()
    os.truncate(folder / NAME, 2**34)  # sparse
    with pytest.raises(Damaged, match="is larger than"):
        lines(folder)
    append(folder, b"{}")
    assert (folder / NAME).stat().st_size < MOST
    assert tail(folder)[-1] == b"{}"


@pytest.mark.parametrize("make", [lambda p: p.symlink_to("/etc/passwd"), os.mkfifo, Path.mkdir])
def test_what_is_no_regular_file_is_neither_read_nor_written(folder: Path, make: object) -> None:
    make(folder / NAME)  # type: ignore[operator]
    for use in (tail, lines, lambda each: append(each, b"{}")):
        with pytest.raises(Damaged, match="is not a regular file"):
            use(folder)


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_the_group_may_write_it(folder: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        append(folder, b"{}")
        assert (folder / NAME).stat().st_mode & 0o777 == 0o660
        for number in range(KEPT):
            append(folder, b"%d" % number)
        shorten(folder)
    finally:
        os.umask(before)
    assert (folder / NAME).stat().st_mode & 0o777 == 0o660


def test_a_folder_that_is_away_is_no_stream_without_samples(folder: Path) -> None:
    assert lines(folder) == tail(folder) == []
    folder.rename(folder.with_name("unmounted"))
    for use in (tail, lines, shorten, lambda each: append(each, b"{}")):
        with pytest.raises(ControlUnavailable):
            use(folder)
