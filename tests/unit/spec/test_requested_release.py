from __future__ import annotations

from pathlib import Path

import pytest

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.spec.requested_release import RequestedRelease
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
