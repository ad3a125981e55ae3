from __future__ import annotations

import importlib
import json
from pathlib import Path

import airflow
import jsonschema
import pytest

from airflow_stream_provider import __version__
from airflow_stream_provider.get_provider_info import get_provider_info

AIRFLOW = Path(airflow.__path__[0])


@pytest.mark.parametrize("schema", ["provider_info.schema.json", "provider.yaml.schema.json"])
def test_it_is_as_airflow_wants_it(schema: str) -> None:
    wanted = json.loads((AIRFLOW / schema).read_text())
    info = get_provider_info()
    if schema.startswith("provider.yaml"):
        # The schema of the source repository: we are not in it, so only the parts we have are held against theirs.
        wanted = {"type": "object", "properties": {k: v for k, v in wanted["properties"].items() if k in info}} | {
            "definitions": wanted.get("definitions", {})
        }
    jsonschema.validate(info, wanted)


def test_everything_named_is_there() -> None:
    info = get_provider_info()
    for part in ("hooks", "operators", "sensors", "triggers"):
        for entry in info[part]:
            for module in entry["python-modules"]:
                importlib.import_module(module)
    for named in (*info["extra-links"], *info["notifications"], *info["cli"]):
        module, _, name = named.rpartition(".")
        assert hasattr(importlib.import_module(module), name)
    assert info["versions"] == [__version__]


def test_every_operator_module_is_named() -> None:
    package = Path(importlib.import_module("airflow_stream_provider.operators").__path__[0])
    helpers = {"__init__", "base", "lineage", "release"}
    there = {f"airflow_stream_provider.operators.{p.stem}" for p in package.glob("*.py") if p.stem not in helpers}
    assert there == set(get_provider_info()["operators"][0]["python-modules"])
