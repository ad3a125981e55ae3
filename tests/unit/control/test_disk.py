"""Files and folders as the control folder needs them; what the store makes of that is in test_files.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_stream_provider.control.disk import (
    make_folder,
    open_folder,
    read_file,
    sync_folder,
    unavailable,
    write_new,
)
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, Damaged


def test_a_file_is_written_once_and_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    data = bytes(range(256)) * 1000  # more than one read
    write_new(path, data, sync=True)
    assert read_file(path, len(data)) == data
    with pytest.raises(Damaged, match="is larger than"):
        read_file(path, len(data) - 1)
    with pytest.raises(FileExistsError):
        write_new(path, b"again")
    assert read_file(path, len(data)) == data


def test_a_link_is_neither_read_nor_written_through(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    with pytest.raises(FileExistsError):
        write_new(link, b"through")
    assert not target.exists()
    target.write_bytes(b"mine")
    with pytest.raises(Damaged, match="is not a regular file"):
        read_file(link, 10)


def test_a_file_that_grows_while_it_is_read_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read = tmp_path / "file", os.read
    path.write_bytes(b"x" * 10)

    def growing(handle: int, count: int) -> bytes:
        with open(path, "ab") as file:
            file.write(b"x" * 10)
        return read(handle, count)

    monkeypatch.setattr(os, "read", growing)
    with pytest.raises(Damaged, match="is larger than 15 bytes"):
        read_file(path, 15)


def test_a_folder_that_exists_is_left_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    make_folder(folder)
    assert folder.stat().st_mode & 0o7777 == 0o2770
    folder.chmod(0o700)
    make_folder(folder)
    assert folder.stat().st_mode & 0o7777 == 0o700


def test_a_link_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "folder").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "folder")


def test_only_a_folder_is_opened(tmp_path: Path) -> None:
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    (tmp_path / "file").touch()
    with open_folder(tmp_path / "folder") as folder, open_folder("inner", inside=folder) as inner:
        os.close(os.open("new", os.O_CREAT, dir_fd=inner))
    assert (tmp_path / "folder" / "inner" / "new").exists()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(inner)
    for name in ("link", "file"):
        with pytest.raises(NotADirectoryError, match=f"{name} is a link or a file"), open_folder(tmp_path / name):
            pass


def test_errors_of_the_disk_are_unavailable(tmp_path: Path) -> None:
    with pytest.raises(ControlUnavailable, match="No such file") as found, unavailable(tmp_path):
        sync_folder(tmp_path / "gone")
    assert found.value.fields["folder"] == str(tmp_path)
