from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.spec import folder as folder_module
from airflow_stream_provider.spec.folder import find_file, load_specs, read_folder
from tests.support.there import there

GOOD = "name: {name}\napplication: a.py\nversion: v1\ncluster: c\ncontrol: file:///d/{control}\n"
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(file: str, name: str = "", text: str = GOOD, control: str = "") -> Path:
        path = tmp_path / file
        path.write_text(text.format(name=name or path.stem, control=control))
        return path

    return write


def test_one_broken_file_leaves_the_others(write: Write, tmp_path: Path) -> None:
    write("orders.yaml")
    write("broken.yaml", text="name: [")
    write("twin.yml", "orders")
    broken, orders, twin = load_specs(tmp_path)
    assert isinstance(broken, SpecError)
    assert not isinstance(orders, SpecError)
    assert orders.name == "orders"
    assert isinstance(twin, SpecError)
    assert "twin.yml, line 1, name: the stream 'orders' is described by orders.yaml already" in str(twin)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    for read in (load_specs, read_folder, lambda folder: find_file(folder, "orders")):
        with pytest.raises(SpecError, match="There is no folder"):
            read(tmp_path / "nowhere")


def test_what_begins_with_a_dot_is_no_stream(write: Write, tmp_path: Path) -> None:
    write("orders.yaml")
    write(".orders.yaml.yaml", text="[")
    (tmp_path / ".#orders.yaml").symlink_to("somebody@example.1:2")
    assert [file.name for file in read_folder(tmp_path)] == ["orders"]


def test_of_two_files_the_one_that_is_named_like_the_stream_counts(write: Write, tmp_path: Path) -> None:
    """A copy whose name was forgotten must not put another control folder in the place of the stream's own."""
    write("a_copy.yaml", "orders", control="elsewhere")
    own = write("orders.yaml")
    by_name = {file.name: file for file in read_folder(tmp_path)}
    assert by_name["orders"].path == own
    assert by_name["a_copy"].spec is None
    assert there(find_file(tmp_path, "orders")).path == own


def test_no_two_files_go_by_the_same_name(write: Write, tmp_path: Path) -> None:
    write("a.yaml", "orders", text=GOOD.replace("version", "versoin"))
    write("orders.yaml")
    write("orders.yml")
    write("x y.yaml", text="[")
    write("x-y.yaml", text="[")
    write("x-y.yml", text="[")
    assert [(file.path.name, file.name) for file in read_folder(tmp_path)] == [
        ("a.yaml", "a"),
        ("orders.yaml", "orders"),
        ("orders.yml", "orders.yml"),
        ("x y.yaml", "x-y"),
        ("x-y.yaml", "x-y.yaml"),
        ("x-y.yml", "x-y.yml"),
    ]


@pytest.mark.parametrize("name", ["orders", "late", "broken", "nobody", "orders.yml", "../d"])
def test_a_file_is_found_as_the_whole_folder_has_it(write: Write, tmp_path: Path, name: str) -> None:
    write("orders.yaml")
    write("orders.yml")
    write("10-late.yaml", "late")
    write("broken.yaml", text=GOOD.replace("version", "versoin"))
    whole = {file.name: file for file in read_folder(tmp_path)}
    found = find_file(tmp_path, name)
    if name not in whole:
        assert found is None
        return
    assert found is not None
    wanted = whole[name]
    assert (found.path, found.name, found.spec, str(found.error)) == (
        wanted.path,
        wanted.name,
        wanted.spec,
        str(wanted.error),
    )


@pytest.mark.parametrize(("file", "most"), [("orders.yaml", 1), ("first-orders.yaml", 1)])
def test_finding_one_file_reads_no_other(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, most: int
) -> None:
    write(file, "orders")
    for number in range(20):
        write(f"other-{number}.yaml")
    read: list[Path] = []
    original = folder_module._read
    monkeypatch.setattr(folder_module, "_read", lambda path: read.append(path) or original(path))
    assert there(find_file(tmp_path, "orders")).spec is not None
    assert len(read) == most


def test_of_a_file_that_cannot_be_used_the_fields_that_are_right_are_known(write: Write, tmp_path: Path) -> None:
    write("a.yaml", "orders")
    write("b.yaml", "orders")
    write("c.yaml", text=GOOD + "versoin: 1\n")
    write("d.yaml", text="[")
    good, twin, broken, nothing = (each.known for each in read_folder(tmp_path))
    assert (good.name, good.problem) == ("orders", "")
    assert (broken.name, broken.control, "versoin" in broken.problem) == ("c", "file:///d/", True)
    assert (nothing.name, nothing.control, bool(nothing.problem)) == ("d", "", True)
    # Its DAGs have the name of the file: what it says is another file's stream.
    assert (twin.name, twin.control, "is described by a.yaml" in twin.problem) == ("b", "", True)
