"""Names that stay importable, with their signatures, for people's own code."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

import airflow_stream_provider
from airflow_stream_provider import stream_dags
from airflow_stream_provider.checkpoint import read
from airflow_stream_provider.lag import evaluate


def parameters(function: object) -> list[tuple[str, object]]:
    found = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    return [(each.name, each.default) for each in found]


def test_the_promised_functions_have_their_signatures() -> None:
    none = inspect.Parameter.empty
    wanted = [("commits", none), ("end_offsets", none), ("current_lag", none), ("now", none), ("allowed_lag", 0)]
    assert parameters(evaluate) == wanted
    assert [name for name, _ in parameters(read)][:1] == [name for name, _ in parameters(read) if _ is none]
    (folder, default), *options = parameters(stream_dags)
    assert (folder, default) == ("folder", none)
    assert dict(options) == {
        **dict.fromkeys(("default_args", "queue", "pool", "executor_config", "access_control", "owner")),
        "tags": (),
        "prefix": "",
    }


def test_evaluate_answers_by_burrows_rules() -> None:
    assert evaluate([(1, 0, 5), (1, 1000, 6), (1, 2000, 7)], [9], 8, 2.5) == "STALL"
    assert evaluate([(1, 0, 5)], [9], 0, 2.5) == "OK"


@pytest.mark.parametrize("room", ["operators", "sensors", "triggers", "notifications"])
def test_classes_for_dag_files_are_importable_from_their_room(room: str) -> None:
    package = importlib.import_module(f"{airflow_stream_provider.__name__}.{room}")
    suffix = re.compile(r"[A-Z]\w+(Operator|Sensor|Trigger|Notifier)")
    bases = {"StreamOperator", "WishOperator", "ReleaseOperator", "LagTrigger", "StreamTrigger", "ApprovalTrigger"}
    there: dict[str, object] = {}
    for path in Path(package.__path__[0]).glob("[a-z]*.py"):
        module = importlib.import_module(f"{package.__name__}.{path.stem}")
        there |= {
            name: each for name, each in vars(module).items() if getattr(each, "__module__", "") == module.__name__
        }
    public = {name: each for name, each in there.items() if suffix.fullmatch(name) and name not in bases}
    assert public
    assert {name: getattr(package, name) for name in public} == public
    with pytest.raises(ImportError):
        exec(f"from {package.__name__} import NoSuchOperator")


def test_what_dag_files_need_besides_is_importable_from_operators() -> None:
    from airflow_stream_provider.operators import stream_asset

    assert stream_asset("orders").uri == "stream://orders/"


def test_every_room_is_a_package() -> None:
    root = Path(airflow_stream_provider.__file__).parent
    assert [path for path in root.rglob("*") if any(path.glob("*.py")) and not (path / "__init__.py").is_file()] == []
