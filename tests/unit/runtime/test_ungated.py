"""What starts a stream past the gate is refused, whether pyspark comes from a folder or, as on a cluster, a zip."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_stream_provider.lifecycle.errors import RehearsalRefused, SpecError, StreamError
from airflow_stream_provider.runtime import refused as ungated
from airflow_stream_provider.runtime.refused import check_jvm, install

VARIABLES = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_API_MODE", "SPARK_CONNECT_MODE")


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[StreamError]:
    """Errors that were refused; a classic session is just a word here."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONNECT_MODE", "0")  # whatever packages are installed beside these tests
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda self: "classic")
    monkeypatch.setattr(SparkSession.Builder, "create", lambda self: "created", raising=False)
    monkeypatch.setattr(sys, "meta_path", sys.meta_path[:])
    monkeypatch.setattr(ungated, "PATHS", {})  # pyspark's own stay as they are, for the tests after these
    found: list[StreamError] = []
    return found


@pytest.mark.parametrize(
    ("options", "environment", "says"),
    [
        ({"spark.remote": "sc://server"}, {}, r"\(spark\.remote\)"),
        ({}, {"SPARK_REMOTE": "sc://server"}, r"\(SPARK_REMOTE\)"),
        ({"spark.api.mode": "classic"}, {"SPARK_REMOTE": "sc://server"}, r"\(SPARK_REMOTE\)"),
        ({}, {"SPARK_CONNECT_MODE_ENABLED": "1"}, r"\(SPARK_CONNECT_MODE_ENABLED\)"),
        ({"spark.api.mode": "Connect"}, {}, r"\(spark\.api\.mode\)"),
        ({}, {"SPARK_API_MODE": "connect"}, r"\(spark\.api\.mode\)"),
    ],
)
@pytest.mark.parametrize("method", ["getOrCreate", "create"])
def test_a_session_of_spark_connect_is_refused(
    refused: list[StreamError],
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, str],
    environment: dict[str, str],
    says: str,
    method: str,
) -> None:
    install(refused.append)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    builder = SparkSession.Builder()
    monkeypatch.setattr(builder, "_options", options)
    with pytest.raises(SpecError, match=f"a Spark Connect session {says}"):
        getattr(builder, method)()
    assert len(refused) == 1  # the script may catch the error


def test_a_classic_session_passes(refused: list[StreamError], monkeypatch: pytest.MonkeyPatch) -> None:
    install(refused.append)
    builder: Any = SparkSession.Builder()
    monkeypatch.setattr(builder, "_options", {"spark.api.mode": "classic", "spark.app.name": "orders"})
    assert (builder.getOrCreate(), refused) == ("classic", [])


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("imported_before", [False, True])
def test_a_method_is_refused_whenever_its_module_is_imported(
    refused: list[StreamError],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    zipped: bool,
    imported_before: bool,
) -> None:
    code = "class Writer:\n    def start(self):\n        pass\n\n    def stop(self):\n        return 'stopped'\n"
    if zipped:
        with zipfile.ZipFile(tmp_path / "pyspark.zip", "w") as archive:
            archive.writestr("other_writer.py", code)
            archive.writestr("neighbour.py", "")
        monkeypatch.syspath_prepend(tmp_path / "pyspark.zip")
    else:
        (tmp_path / "other_writer.py").write_text(code)
        (tmp_path / "neighbour.py").write_text("")
        monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(ungated, "PATHS", {"other_writer": ("Writer", ("start",), "nobody could stop it")})
    for name in ("other_writer", "neighbour"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    if imported_before:
        __import__("other_writer")
    install(refused.append)
    __import__("neighbour")
    module: Any = __import__("other_writer")
    try:
        assert str(tmp_path) in module.__file__
        assert type(module.__loader__).__name__ in ("SourceFileLoader", "zipimporter")
        assert module.__spec__.loader is module.__loader__
        assert module.Writer().stop() == "stopped"
        with pytest.raises(SpecError, match=r"calls other_writer\.Writer\.start: nobody could stop it"):
            module.Writer().start()
        assert len(refused) == 1
    finally:
        del sys.modules["other_writer"], sys.modules["neighbour"]


def test_what_is_refused_is_there_in_pyspark() -> None:
    """Read, not imported: Spark Connect needs packages that need not be here."""
    for name, (cls, methods, _) in ungated.PATHS.items():
        text = (Path(sys.modules["pyspark"].__path__[0]) / f"{name.partition('.')[2].replace('.', '/')}.py").read_text()
        assert f"class {cls}" in text
        assert [method for method in methods if f"    def {method}(" not in text] == []


def stream(identity: str, name: str | None = None) -> Any:
    return SimpleNamespace(id=lambda: SimpleNamespace(toString=lambda: identity), name=lambda: name)


def queries(active: list[Any], real: str | None = None) -> Any:
    """One query, of a session in which these streams are active."""
    session = SimpleNamespace(streams=SimpleNamespace(_jsqm=SimpleNamespace(active=lambda: active)))
    run = None if real is None else SimpleNamespace(id=real)
    return [SimpleNamespace(writer=SimpleNamespace(_df=SimpleNamespace(sparkSession=session)), real=run)]


@pytest.mark.parametrize(("name", "called"), [("lines", "lines"), (None, "a-1")])
def test_a_stream_that_the_jvm_runs_already_is_named(name: str | None, called: str) -> None:
    with pytest.raises(RehearsalRefused, match=f"The streaming query {called} runs in this driver already"):
        check_jvm(queries([stream("a-1", name), stream("b-2")]), {"b-2"})


def test_rehearsals_and_managed_queries_are_no_surprise() -> None:
    check_jvm(queries([stream("a-1"), stream("b-2")], real="a-1"), {"b-2"})
    check_jvm(queries([]), ())
