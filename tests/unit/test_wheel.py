"""The wheel: the same sources give the same bytes; it has the examples, and a list of what it needs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def named(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement).name)


def build(folder: Path, **environment: str) -> Path:
    """Build with what is installed; nothing is fetched."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env={**os.environ, **environment})
    [wheel] = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))


def test_two_builds_have_one_hash(wheel: Path, tmp_path: Path) -> None:
    again = build(tmp_path, TZ="Asia/Tokyo", PYTHONHASHSEED="7")
    assert again.name == wheel.name
    assert hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(wheel.read_bytes()).digest()


def test_it_has_the_examples(wheel: Path) -> None:
    folder = ROOT / "airflow_stream_provider" / "example_dags"
    names = zipfile.ZipFile(wheel).namelist()
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix in (".py", ".yaml"):
            assert str(path.relative_to(ROOT)) in names
    assert "airflow_stream_provider/example_dags/.airflowignore" in names


def test_its_list_of_components_is_what_is_declared_without_addresses(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    [name] = [each for each in archive.namelist() if ".dist-info/sboms/" in each]
    text = archive.read(name).decode()
    found = json.loads(text)
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    said = [p["value"] for c in found["components"] for p in c["properties"] if p["name"] == "requirement"]
    optional = PROJECT["optional-dependencies"]
    extras = [text for extra in optional if extra not in ("demo", "dev") for text in optional[extra]]
    assert sorted(map(named, said)) == sorted(map(named, (*PROJECT["dependencies"], *extras)))
    assert not re.search(r"https?:|index-url", text)
