"""What the right to trigger an upgrade must not reach: other files of the machine, and what is no script."""

from __future__ import annotations

import os
import timeit
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.spec.requested_release import MAX_SCRIPT_BYTES, check_file, check_script


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The DAG folder; a secret lies beside it."""
    (tmp_path / "secret.py").write_text("password = 1\n")
    (tmp_path / "dags" / "apps").mkdir(parents=True)
    (tmp_path / "dags" / "apps" / "a.py").write_text("x = 1\n")
    return tmp_path / "dags"


def linked(root: Path) -> Path:
    (root / "apps" / "link.py").symlink_to(root.parent / "secret.py")
    return root / "apps" / "link.py"


def linked_folder(root: Path) -> Path:
    (root / "libs").symlink_to(root.parent)
    return root / "libs" / "secret.py"


def circle(root: Path) -> Path:
    (root / "apps" / "circle.py").symlink_to(root / "apps" / "circle.py")
    return root / "apps" / "circle.py"


OUTSIDE: list[Callable[[Path], Path]] = [
    lambda root: root / "/proc/self/root/etc/hostname.py",
    lambda root: root / timeit.__file__,
    lambda root: root / "../secret.py",
    lambda root: root / "apps/../../secret.py",
    lambda root: root / "apps" / "a\0.py",
    lambda root: root / "apps" / ("a" * 5000 + ".py"),
    linked,
    linked_folder,
    circle,
]


@pytest.mark.parametrize("make", OUTSIDE)
def test_what_leads_out_of_the_folder_is_refused(root: Path, make: Callable[[Path], Path]) -> None:
    path = make(root)
    with pytest.raises(SpecError, match=r"is outside .*dags, or leads out of it|There is no file"):
        check_script(path, [root])


def test_every_folder_counts(root: Path) -> None:
    check_script(root / "apps" / "a.py", [root.parent, root])
    with pytest.raises(SpecError, match="is outside"):
        check_script(root.parent / "secret.py", [root.parent, root])


def test_what_lies_inside_passes_also_by_a_link_or_a_detour(root: Path, tmp_path: Path) -> None:
    (root / "apps" / "b.py").symlink_to("a.py")
    (tmp_path / "current").symlink_to(root)
    for path in (root / "apps" / "a.py", root / "apps" / ".." / "apps" / "a.py", root / "apps" / "b.py"):
        check_script(path, [root])
    check_script(tmp_path / "current" / "apps" / "a.py", [tmp_path / "current"])


@pytest.mark.parametrize("name", ["airflow.cfg", "a.pyc", "a.PY", "environ", ".py"])
def test_only_a_py_file_is_a_script(root: Path, name: str) -> None:
    (root / name).write_text("x = 1\n")
    with pytest.raises(SpecError, match=r"is not a \.py file"):
        check_script(root / name, [root])


def test_a_script_that_is_too_large_is_not_even_read(root: Path) -> None:
    with open(root / "large.py", "wb") as file:
        file.truncate(MAX_SCRIPT_BYTES + 1)
    with pytest.raises(SpecError, match=f"has {MAX_SCRIPT_BYTES + 1} bytes; {MAX_SCRIPT_BYTES} are allowed"):
        check_script(root / "large.py", [root])


def test_an_archive_may_be_larger_than_a_script(root: Path) -> None:
    with open(root / "libs.zip", "wb") as file:
        file.truncate(MAX_SCRIPT_BYTES + 1)
    check_file(root / "libs.zip", [root])


def test_a_pipe_is_no_file(root: Path) -> None:
    os.mkfifo(root / "pipe.py")
    with pytest.raises(SpecError, match="There is no file"):
        check_script(root / "pipe.py", [root])


@pytest.mark.parametrize("code", ["x = \0", "def broken(:", "(" * 300 + ")" * 300])
def test_what_is_not_python_is_refused(root: Path, code: str) -> None:
    (root / "a.py").write_text(code)
    with pytest.raises(SpecError, match="this is not Python"):
        check_script(root / "a.py", [root])
