from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.spec import folder as folder_module
from airflow_stream_provider.spec.folder import find_spec, load_specs, read_folder
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
    for read in (load_specs, read_folder, lambda folder: find_spec(folder, "orders")):
        with pytest.raises(SpecError, match="There is no folder"):
            read(tmp_path / "nowhere")


def test_what_begins_with_a_dot_is_no_stream(write: Write, tmp_path: Path) -> None:
    write("orders.yaml")
    write(".orders.yaml.yaml", text="[")
    (tmp_path / ".#orders.yaml").symlink_to("somebody@example.1:2")
    assert [file.path.name for file in read_folder(tmp_path)] == ["orders.yaml"]


def test_of_two_files_the_one_that_is_named_like_the_stream_counts(write: Write, tmp_path: Path) -> None:
    """A copy whose name was forgotten must not put another control folder in the place of the stream's own."""
    write("a_copy.yaml", "orders", control="elsewhere")
    own = write("orders.yaml")
    by_path = {file.path: file for file in read_folder(tmp_path)}
    assert there(by_path[own].spec).name == "orders"
    assert by_path[tmp_path / "a_copy.yaml"].spec is None
    assert there(find_spec(tmp_path, "orders")).source == own


@pytest.mark.parametrize("name", ["orders", "late", "broken", "nobody", "orders.yml", "../d"])
def test_a_stream_is_found_as_the_whole_folder_has_it(write: Write, tmp_path: Path, name: str) -> None:
    write("orders.yaml")
    write("orders.yml")
    write("10-late.yaml", "late")
    write("broken.yaml", text=GOOD.replace("version", "versoin"))
    whole = {file.spec.name: file.spec for file in read_folder(tmp_path) if file.spec is not None}
    found = find_spec(tmp_path, name)
    assert found == whole.get(name)
    assert found is None or found.source == whole[name].source


@pytest.mark.parametrize(("file", "most"), [("orders.yaml", 1), ("first-orders.yaml", 1)])
def test_finding_one_stream_reads_no_other_file(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, most: int
) -> None:
    write(file, "orders")
    for number in range(20):
        write(f"other-{number}.yaml")
    read: list[Path] = []
    original = folder_module._read
    monkeypatch.setattr(folder_module, "_read", lambda path: read.append(path) or original(path))
    assert find_spec(tmp_path, "orders") is not None
    assert len(read) == most
