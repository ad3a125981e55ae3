from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.spec.yaml_file import MAX_BYTES, MAX_DEPTH, YamlFile, read_text

HERE = Path("streams/a.yaml")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: 1\nnotify: [1, " + "9" * 5000 + "]\n", "line 2, notify.1: this looks like a number, and is none"),
        ("a: 1\nkafka: !!bool x\n", "line 2: tags"),
        ("a: !!python/object/apply:os.system [id]\n", "line 1: tags"),
        ("a: &a [*a]\n", "line 1: anchors and aliases"),
        ("a: &a [1]\nb: [*a, *a]\n", "line 1: anchors and aliases"),
        ("a: " + "[" * 30_000, "line 1: this is nested too deeply"),
        ("a:\n" + "".join("  " * n + "- \n" for n in range(1, MAX_DEPTH + 2)), "nested too deeply"),
        ("a: [" + "1, " * 3000 + "]", "line 1: this is too long"),
        ("? [a, b]\n: 1\n", "line 1: a field's name is not a word"),
        ("? {a: b}\n: 1\n", "a field's name is not a word"),
        ("a: 1\n---\nb: 1\n", "this is not YAML"),
        ("a: \x07\n", "this is not YAML"),
    ],
)
def test_what_yaml_can_do_and_a_stream_needs_not_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        YamlFile.parse(HERE, text)
    assert sentence in str(caught.value)
    assert caught.value.fields["file"] == str(HERE)


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("#" * (MAX_BYTES + 1))
    with pytest.raises(SpecError, match=f"it has more than {MAX_BYTES} bytes"):
        read_text(path)
    path.write_text("#" * MAX_BYTES)
    assert len(read_text(path)) == MAX_BYTES


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "nowhere.yaml").symlink_to("gone")
    (tmp_path / "endless.yaml").symlink_to("/dev/zero")
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    for name in ("pipe", "folder", "nowhere", "endless", "latin"):
        with pytest.raises(SpecError, match=f"{name}.yaml cannot be read"):
            read_text(tmp_path / f"{name}.yaml")
