"""Lines that are appended: bounded, and no name in a folder that others may write is followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_stream_provider.control import files_root
from airflow_stream_provider.control.files import FilesStore
from airflow_stream_provider.control.files_root import KEPT, MOST, NAME, PART, SampleFile
from airflow_stream_provider.control.root import make_root
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, Damaged


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_root(tmp_path.as_uri())
    store = FilesStore(tmp_path / "orders")
    store.initialise()
    return store.folder


def lines(folder: Path) -> list[bytes]:
    return [*SampleFile(folder).newest()][::-1]


def test_lines_longer_than_what_is_read_at_a_time_come_whole(folder: Path) -> None:
    written = [b"%d" % number + b"x" * size for number, size in enumerate((1, PART, 5, 3 * PART, PART - 1, 7))]
    for line in written:
        SampleFile(folder).add(line)
    assert lines(folder) == written


def test_the_newest_stay_and_nothing_else_is_left(folder: Path) -> None:
    for number in range(KEPT + 3):
        SampleFile(folder).add(b"%d" % number)
    assert len(lines(folder)) == KEPT + 3
    SampleFile(folder).shorten()
    kept = lines(folder)
    assert (len(kept), kept[0], kept[-1]) == (KEPT, b"3", b"%d" % (KEPT + 2))
    assert not list((folder / "incoming").iterdir())
    SampleFile(folder).add(b"new")
    assert next(SampleFile(folder).newest()) == b"new"


def test_a_file_that_is_too_large_is_halved_by_who_appends(folder: Path) -> None:
    line = b"x" * 2**18
    for _ in range(MOST // 2**18 + 1):
        SampleFile(folder).add(line)
    assert (folder / NAME).stat().st_size < MOST
    assert set(SampleFile(folder).newest()) == {line}


def test_one_that_nobody_of_us_wrote_is_cut_down(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_root, "READ_LIMIT", MOST // 8)  # one endless line costs the square of it
    (folder / NAME).touch()
    os.truncate(folder / NAME, 2**34)  # sparse
    with pytest.raises(Damaged, match="is larger than"):
        lines(folder)
    SampleFile(folder).add(b"{}")
    assert (folder / NAME).stat().st_size < MOST
    assert next(SampleFile(folder).newest()) == b"{}"


@pytest.mark.parametrize("make", [lambda p: p.symlink_to("/etc/passwd"), os.mkfifo, Path.mkdir])
def test_what_is_no_regular_file_is_neither_read_nor_written(folder: Path, make: object) -> None:
    make(folder / NAME)  # type: ignore[operator]
    samples = SampleFile(folder)
    for use in (lambda: list(samples.newest()), lambda: samples.add(b"{}")):
        with pytest.raises(Damaged, match="is not a regular file"):
            use()


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_the_group_may_write_it(folder: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        SampleFile(folder).add(b"{}")
        assert (folder / NAME).stat().st_mode & 0o777 == 0o660
        for number in range(KEPT):
            SampleFile(folder).add(b"%d" % number)
        SampleFile(folder).shorten()
    finally:
        os.umask(before)
    assert (folder / NAME).stat().st_mode & 0o777 == 0o660


def test_a_folder_that_is_away_is_no_stream_without_samples(folder: Path) -> None:
    samples = SampleFile(folder)
    assert list(samples.newest()) == []
    folder.rename(folder.with_name("unmounted"))
    for use in (lambda: list(samples.newest()), samples.shorten, lambda: samples.add(b"{}")):
        with pytest.raises(ControlUnavailable):
            use()
