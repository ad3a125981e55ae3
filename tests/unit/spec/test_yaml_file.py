"""A YAML file with its lines: which line an error names, and that it never shows what is written there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.spec.yaml_file import MAX_BYTES, MAX_DEPTH, Field, YamlFile, read_text


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    count: int = 0

    @field_validator("count")
    @classmethod
    def _small(cls, value: int) -> int:
        if value > 9:
            raise ValueError("is too large: give at most 9.")
        return value


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    inner: Inner | None = None
    items: tuple[Inner, ...] = ()


TEXT = """\
name: orders
inner:
  count: 5
items:
  - count: 1
  - {count: 2,
     more: 3}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "orders.yaml"


def read(path: Path, text: str | bytes) -> YamlFile:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return YamlFile.read(path)


def refused(path: Path, text: str) -> SpecError:
    file = read(path, text)
    with pytest.raises(ValidationError) as error:
        Model.model_validate(file.fields)
    return file.refuse(error.value, Model)[0]


def test_every_field_has_the_line_of_its_name(path: Path) -> None:
    file = read(path, TEXT)
    items = [{"count": "1"}, {"count": "2", "more": "3"}]
    assert file.fields == {"name": "orders", "inner": {"count": "5"}, "items": items}
    assert file.lines == {
        (): 1,
        ("name",): 1,
        ("inner",): 2,
        ("inner", "count"): 3,
        ("items",): 4,
        ("items", 0): 5,
        ("items", 0, "count"): 5,
        ("items", 1): 6,
        ("items", 1, "count"): 6,
        ("items", 1, "more"): 7,
    }


@pytest.mark.parametrize(
    ("field", "where"),
    [
        (("inner", "count"), "line 3, inner.count: "),
        (("inner", "none"), "line 2, inner.none: "),
        (("items", 7, "none"), "line 4, items.7.none: "),
        (("none",), "line 1, none: "),
        ((), "line 1: "),
    ],
)
def test_an_error_names_the_field_and_the_line_where_it_is_or_belongs(path: Path, field: Field, where: str) -> None:
    error = read(path, TEXT).error(field, "this is wrong.", next_step="Correct it.")
    assert str(error) == f"{path}, {where}this is wrong. Correct it."
    assert error.fields["file"] == str(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\nb: [1, 2\n", "line 3: this is not YAML"),
        ("a: 1\n\tb: 2\n", "line 2: this line begins with a tab, and YAML takes only spaces there. Put spaces"),
        ("a: *nowhere\n", "line 1: anchors and aliases (& and *) are not read here"),
        ("a: 1\n---\nb: 2\n", "line 2: this is not YAML"),
        ("a: !!python/object:os.system 1\n", "line 1: tags (!) are not read here"),
        ("a: \x07\n", "line 1: this is not YAML"),
        ("a: 1\nb: 2\na: 3\n", "line 3, a: this field is given twice. Keep one of the two."),
        ("x:\n  a: 1\n  a: 1\n", "line 3, x.a: this field is given twice"),
        ("", "line 1: a stream is a mapping of fields"),
        ("# nothing\n", "line 1: a stream is a mapping of fields"),
        ("- a\n", "line 1: a stream is a mapping of fields"),
    ],
)
def test_what_is_no_mapping_of_fields_is_refused_with_its_line(path: Path, text: str, says: str) -> None:
    with pytest.raises(SpecError) as error:
        read(path, text)
    assert str(error.value).startswith(f"{path}, {says}")


def test_a_file_that_cannot_be_read_is_named(path: Path) -> None:
    with pytest.raises(SpecError, match=r"orders\.yaml cannot be read: No such file or directory\."):
        YamlFile.read(path)
    with pytest.raises(SpecError, match="cannot be read: not UTF-8 text"):
        read(path, b"name: \xff\xfe\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("inner: {count: 1}\n", "line 1, name: this field is missing. Add `name: orders`."),
        ("name: a\ninner:\n  cuont: 1\n", "line 3, inner.cuont: there is no such field. Did you mean `count`?"),
        ("name: a\nitems:\n- {}\n- zzz: 1\n", "line 4, items.1.zzz: there is no such field. Known here: count."),
        ("nmae: a\n", "line 1, nmae: there is no such field. Did you mean `name`?"),
        ("name: a\ninner: {count: many}\n", "line 2, inner.count: is not a whole number, such as 1000"),
        ("name: a\ninner: {count: 10}\n", "line 2, inner.count: is too large: give at most 9."),
    ],
)
def test_what_a_model_refuses_is_one_sentence_with_what_to_do(path: Path, text: str, says: str) -> None:
    assert str(refused(path, text)).startswith(f"{path}, {says}")


@pytest.mark.parametrize("text", ["name: a\ninner: {count: hunter2}\n", "name: [hunter2]\n", "name: a\ninner: hunter2"])
def test_what_is_written_there_is_not_shown(path: Path, text: str) -> None:
    assert "hunter2" not in str(refused(path, text))


def test_yaml_that_cannot_be_read_does_not_show_its_line(path: Path) -> None:
    with pytest.raises(SpecError) as error:
        read(path, "name: a\npassword: [hunter2\n")
    chain: Any = error.value
    assert "hunter2" not in str(chain)
    assert (chain.__cause__, chain.__suppress_context__) == (None, True)


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
