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


def test_a_missing_file_is_named(spec: StreamSpec) -> None:
    with pytest.raises(SpecError, match=r"There is no file .*/apps/b\.py"):
        RequestedRelease.of(spec, None, "apps/b.py", None, None).check()


def test_a_script_that_is_not_python_is_named_with_its_line(spec: StreamSpec) -> None:
    spec.path("apps/a.py").write_text("x = 1\ndef broken(:\n")
    with pytest.raises(SpecError, match=r"apps/a\.py, line 2: this is not Python"):
        RequestedRelease.of(spec, None, None, None, None).check()


def test_a_secret_in_the_form_is_refused_without_showing_it(spec: StreamSpec) -> None:
    with pytest.raises(SpecError) as caught:
        RequestedRelease.of(spec, None, None, '["--password=hunter2"]', None).check()
    assert "hunter2" not in str(caught.value)
