"""What an upgrade deploys, and what the right to trigger one must not reach."""

from __future__ import annotations

import os
import timeit
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.spec.requested_release import MAX_SCRIPT_BYTES, RequestedRelease, check_file, check_script
from airflow_stream_provider.spec.stream import StreamSpec, load_spec


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    for folder in ("streams", "apps"):
        (tmp_path / folder).mkdir()
    (tmp_path / "apps" / "a.py").write_text("x = 1\n")
    path = tmp_path / "streams" / "s.yaml"
    path.write_text(
        "name: s\napplication: apps/a.py\nversion: v1\ncluster: c\ncontrol: file:///d\narguments: [--a, b]\n"
    )
    return load_spec(path)


def test_the_form_wins_over_the_yaml(spec: StreamSpec) -> None:
    assert RequestedRelease.of(spec, None, None, None, None) == RequestedRelease(spec, "v1", "apps/a.py", ("--a", "b"))
    assert RequestedRelease.of(spec, "v2", "apps/b.py", "[]", '["/c"]') == RequestedRelease(
        spec, "v2", "apps/b.py", (), ("/c",)
    )


@pytest.mark.parametrize("text", ["{", '{"a": 1}', "--limit 5"])
def test_a_list_that_is_none_is_refused(spec: StreamSpec, text: str) -> None:
    with pytest.raises(SpecError, match="`arguments` is not a JSON list"):
        RequestedRelease.of(spec, None, None, text, None)


def test_a_good_release_passes(spec: StreamSpec) -> None:
    RequestedRelease.of(spec, None, None, None, None).check()


def test_other_arguments_than_the_yamls_need_its_leave(spec: StreamSpec) -> None:
    with pytest.raises(SpecError, match=r"not those of s\.yaml, and it does not allow others.*free_arguments: true"):
        RequestedRelease.of(spec, None, None, '["-n1"]', None).check()
    RequestedRelease.of(spec, None, None, '["--a", "b"]', None).check()
    free = spec.upgrade.model_copy(update={"free_arguments": True})
    freed = spec.model_copy(update={"upgrade": free})
    RequestedRelease.of(freed, None, None, '["-n1"]', None).check()


@pytest.mark.parametrize(
    "version", ["", "1 [payments-2-1a2b]", 'a"b', "a'b", "1\n", "a\nb", "a b", "x" * 65, "caf\u00e9", "<b>", "a/b"]
)
def test_a_version_that_is_no_plain_label_is_refused(spec: StreamSpec, version: str) -> None:
    with pytest.raises(SpecError, match="cannot be a release's version"):
        RequestedRelease(spec, version, "apps/a.py", spec.arguments).check()


def test_a_version_that_is_one_passes(spec: StreamSpec) -> None:
    RequestedRelease.of(spec, "2.1.0-rc.1+build_7", None, None, None).check()


def test_modules_are_confined_like_the_script(spec: StreamSpec, tmp_path: Path) -> None:
    outside = tmp_path.parent / "outside.py"
    outside.write_text("x = 1\n")
    with pytest.raises(SpecError, match="is outside"):
        RequestedRelease.of(spec.model_copy(update={"py_files": (str(outside),)}), None, None, None, None).check()
    (tmp_path / "apps" / "notes.txt").write_text("not Python")
    RequestedRelease.of(spec.model_copy(update={"py_files": ("apps/notes.txt",)}), None, None, None, None).check()


def test_the_bundle_confines_when_its_topmost_folder_holds_the_yaml(spec: StreamSpec, tmp_path: Path) -> None:
    (tmp_path / "streams" / "a.py").write_text("x = 1\n")
    for bundle, wrong in [(tmp_path / "streams", True), (tmp_path, False), (tmp_path / "other", False)]:
        requested = RequestedRelease.of(spec, None, "apps/a.py", None, None, bundle)
        if wrong:
            with pytest.raises(SpecError, match=r"is outside .*streams"):
                requested.check()
        else:
            requested.check()
        RequestedRelease.of(spec, None, "streams/a.py", None, None, bundle).check()


def test_a_secret_in_the_form_is_refused_without_showing_it(spec: StreamSpec) -> None:
    with pytest.raises(SpecError) as caught:
        RequestedRelease.of(spec, None, None, '["--password=hunter2"]', None).check()
    assert "hunter2" not in str(caught.value)


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
