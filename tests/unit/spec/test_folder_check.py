"""A folder of YAML files is checked as a whole: every error of every file, by what lies on the disk alone."""

from __future__ import annotations

import shutil
import socket
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.spec.folder_check import FolderCheck, check_folder, named_checkpoints

GOOD = """\
name: {name}
application: apps/a.py
version: v1
cluster: nowhere
control: kafka://nowhere/streams
storage: s3a://bucket/prefix
"""
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a file of the folder; nothing may be asked outside this machine."""

    def refuse(*_: object) -> None:
        raise AssertionError("a check of YAML files has reached for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    for name in ("streams", "apps"):
        (tmp_path / name).mkdir()
    (tmp_path / "apps" / "a.py").write_text("x = 1\n")

    def write(file: str, more: str = "", *, name: str = "", text: str = GOOD) -> Path:
        path = tmp_path / "streams" / file
        path.write_text(text.format(name=name or path.stem) + more)
        return path

    return write


def check(tmp_path: Path) -> FolderCheck:
    return check_folder(tmp_path / "streams")


def places(found: FolderCheck) -> list[tuple[str, int, str]]:
    return [(Path(e.fields["file"]).name, e.fields["line"], e.fields["field"]) for e in found.errors]


def test_good_files_have_no_errors(write: Write, tmp_path: Path) -> None:
    write("orders.yaml", "arguments: [--checkpoint, /data/orders]\n")
    write("payments.yml", "arguments: [--checkpoint, /data/payments]\n")
    found = check(tmp_path)
    assert found == FolderCheck(("orders.yaml", "payments.yml"), ("orders", "payments"), (), found.warnings)


def test_all_errors_of_all_files_are_told_at_once_with_file_line_and_field(write: Write, tmp_path: Path) -> None:
    write("a.yaml", "versoin: v2\nlag: {max_seconds: soon}\nupgrade: {pause_seconds: 900}\n")
    write("b.yaml", text="name: [")
    write("c.yaml", text="name: c\n")
    write("d.yaml")
    write(
        "e.yaml", text=GOOD.replace("apps/a.py", "apps/none.py"), more="py_files: [apps/a.py, ../x.zip, apps/y.zip]\n"
    )
    found = check(tmp_path)
    assert found.streams == ("d",)
    assert places(found) == [
        ("a.yaml", 7, "versoin"),
        ("a.yaml", 8, "lag.max_seconds"),
        ("a.yaml", 9, "upgrade"),
        ("b.yaml", 2, ""),
        *(("c.yaml", 1, field) for field in ("application", "version", "cluster", "control")),
        ("e.yaml", 2, "application"),
        ("e.yaml", 7, "py_files.1"),
        ("e.yaml", 7, "py_files.2"),
    ]
    texts = [str(error) for error in found.errors]
    assert texts[0].endswith("a.yaml, line 7, versoin: there is no such field. Did you mean `version`?")
    assert "is not a duration" in texts[1]
    assert "four lease_seconds and pause_seconds" in texts[2]
    assert texts[4].endswith("line 1, application: this field is missing. Add `application: apps/orders.py`.")
    assert f"There is no file {tmp_path}/apps/none.py" in texts[8]
    assert "is outside" in texts[9]


def test_of_equal_names_one_file_is_told(write: Write, tmp_path: Path) -> None:
    write("orders.yaml", "arguments: [--checkpoint, /data/orders]\n")
    write("copy.yaml", "arguments: [--checkpoint, /data/orders]\n", name="orders")
    found = check(tmp_path)
    assert places(found) == [("copy.yaml", 1, "name")]
    assert "is described by orders.yaml already" in str(found.errors[0])
    assert found.streams == ("orders",)


def test_of_equal_checkpoints_the_later_file_is_told(write: Write, tmp_path: Path) -> None:
    write("a.yaml", "arguments: [--checkpoint, /data/a]\n")
    write("b.yaml", "arguments: [--in, x, --checkpoint=file:/data//a/]\n")
    write("c.yaml", "arguments:\n  - --checkpoint\n  - /data/c\n  - --checkpoint\n  - /data/a\n")
    found = check(tmp_path)
    assert places(found) == [("b.yaml", 7, "arguments.2"), ("c.yaml", 11, "arguments.3")]
    assert "the checkpoint /data/a is that of the stream 'a' (a.yaml), too." in str(found.errors[0])


@pytest.mark.parametrize(
    ("script", "py_files", "says"),
    [
        ("def", "", "this is not Python"),
        ("x = 1", "py_files: [other/a.py]\n", "Two files of the release are named a.py"),
        ("x = 1", "py_files: ['apps/b,c.py']\n", "has a comma in its name"),
        ("x = 1", "py_files: [apps/b c.py]\n", "which `storage` does not take"),
    ],
)
def test_files_that_could_not_be_published_are_told(
    write: Write, tmp_path: Path, script: str, py_files: str, says: str
) -> None:
    (tmp_path / "other").mkdir()
    for name in ("other/a.py", "apps/b,c.py", "apps/b c.py"):
        (tmp_path / name).write_text("y = 1\n")
    (tmp_path / "apps" / "a.py").write_text(script)
    write("orders.yaml", py_files)
    (error,) = check(tmp_path).errors
    assert says in str(error)
    assert error.fields["field"] == ("py_files" if py_files else "application")


def test_the_json_has_where_and_what_to_do(write: Write, tmp_path: Path) -> None:
    path = write("a.yaml", "versoin: v2\n")
    assert check(tmp_path).to_json() == {
        "files": ["a.yaml"],
        "streams": [],
        "errors": [
            {
                "file": str(path),
                "line": 7,
                "field": "versoin",
                "message": f"{path}, line 7, versoin: there is no such field.",
                "next_step": "Did you mean `version`?",
            }
        ],
        "warnings": [],
    }


def test_a_file_that_cannot_be_read_hides_no_other(write: Write, tmp_path: Path) -> None:
    (tmp_path / "streams" / "a.yaml").symlink_to("nowhere")
    write("b.yaml", "versoin: v2\n")
    found = check(tmp_path)
    assert [error["line"] for error in found.to_json()["errors"]] == [1, 7]
    assert "a.yaml cannot be read" in str(found.errors[0])


def test_a_folder_without_files_is_no_good_folder(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="There is no folder"):
        check(tmp_path)
    (tmp_path / "streams").mkdir()
    with pytest.raises(SpecError, match="There is no YAML file in"):
        check(tmp_path)


@pytest.mark.parametrize("name", ["rates-1.0-py3-none-any.whl", "rates.WHL", "rates.pyz"])
def test_an_archive_that_executors_do_not_import_is_refused_where_it_is_named(
    write: Write, tmp_path: Path, name: str
) -> None:
    with zipfile.ZipFile(tmp_path / "apps" / name, "w") as wheel:
        wheel.writestr("rates.py", "x = 1\n")
    shutil.copy(tmp_path / "apps" / name, tmp_path / "apps" / "rates.zip")
    write("a.yaml", f"py_files: [apps/rates.zip, apps/{name}]\n")
    found = check(tmp_path)
    assert places(found) == [("a.yaml", 7, "py_files.1")]
    assert "of archives, Spark puts only .zip, .egg, .jar on their path" in found.errors[0].message


def test_what_cannot_be_a_package_is_an_error(write: Write, tmp_path: Path) -> None:
    write("a.yaml", 'conf:\n  spark.jars.packages: "a:b:1, org.apache.spark:spark-sql-kafka-0-10_2.13"\n')
    found = check(tmp_path)
    assert places(found) == [("a.yaml", 8, "conf.spark.jars.packages")]
    assert "kafka-0-10_2.13' in spark.jars.packages is no package. Write GROUP:NAME:VERSION" in str(found.errors[0])


def test_what_may_be_meant_so_is_a_warning(write: Write, tmp_path: Path) -> None:
    told = "notify: [{call: a.b}]\n"
    write("a.yaml")
    write("b.yaml", told + "arguments: [--checkpoint, /tmp/b]\n")
    write("c.yaml", told + "arguments: [--in, x, --checkpoint-location=c/checkpoint]\n")
    write("d.yaml", told + "arguments: [--checkpoint, 's3a://bucket/tmp/d']\n")
    write("e.yaml", "watch: {schedule: null}\n")
    kafka = "org.apache.spark:spark-sql-kafka-0-10_2.13:"
    write("f.yaml", told + f"conf: {{spark.jars.packages: '{kafka}4.0.0'}}\n")
    write("g.yaml", told + f"conf: {{spark.jars.packages: '{kafka}5.0.0'}}\n")
    found = check(tmp_path)
    assert (found.errors, found.streams) == ((), ("a", "b", "c", "d", "e", "f", "g"))
    assert [(Path(w.fields["file"]).name, w.fields["line"], w.fields["field"]) for w in found.warnings] == [
        ("a.yaml", 1, "notify"),
        ("b.yaml", 8, "arguments.1"),
        ("c.yaml", 8, "arguments.2"),
        ("g.yaml", 8, "conf"),
    ]
    assert "Spark 5.0.0 is untried: this provider was run on 3.5, 4.0" in str(found.warnings[3])
    assert "the checkpoint /tmp/b is relative, or in a folder for temporary files" in str(found.warnings[1])


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ([], {}),
        (["--kafka", "k:9092", "--checkpoint", "/data/a"], {"/data/a": 3}),
        (["--checkpoint=/data/a/"], {"/data/a": 0}),
        (["--Checkpoint_Location", "file:///data//a"], {"/data/a": 1}),
        (["--checkpointLocation", "s3://bucket/a"], {"s3a://bucket/a": 1}),
        (["--checkpoint-path=hdfs://nn:8020/a", "--checkpoint", "/b"], {"hdfs://nn/a": 0, "/b": 2}),
        (["--checkpoint"], {}),
        (["--checkpoint", " "], {}),
        (["--checkpoint-root", "/data", "--checkpoint-dir=/data", "checkpoint", "/data", "--checkpoints", "3"], {}),
    ],
)
def test_what_the_options_name(arguments: list[str], found: dict[str, int]) -> None:
    assert named_checkpoints(arguments) == found
