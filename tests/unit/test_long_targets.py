"""What `make test` leaves out can begin: tests are found, modules load, worlds are laid out. Without a JVM."""

from __future__ import annotations

import copy
import importlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_stream_provider import stream_dags
from airflow_stream_provider.spec.stream import load_spec
from chaos import world as chaos
from devstack.places import FILE, HDFS, KAFKA, Pair, Storage, remote_storage
from tests.stories import world as stories

ROOT = Path(__file__).parents[2]
BROKERS, CONF = "127.0.0.1:9", {"spark.cores.max": "1"}
READ = """
import json, sys
import pytest

for words in json.loads(sys.argv[1]):
    if code := pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *words]):
        sys.exit(f"{words}: {code!r}")
"""
TESTS = ("test-system", "test-chaos", "test-stores", "test-clusters", "test-compose")
OTHERS = ("demo", "chaos", "simulate", "bench")
URLS = {"hdfs": "hdfs://127.0.0.1:9/streams", "moto": "s3a://stack/streams", "s3proxy": "s3a://stack/streams"}


def commands(target: str) -> str:
    """Return what `make` would run, a command a line."""
    made = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=True)
    return made.stdout.replace("\\\n", " ")


def test_every_module_that_a_long_target_runs_can_be_loaded() -> None:
    said = "\n".join(map(commands, OTHERS + TESTS))
    modules = {name for name in re.findall(r"/python -m ([\w.]+)", said) if (ROOT / name.partition(".")[0]).is_dir()}
    assert {"demo", "chaos", "benchmarks.lag", "tests.support.simulation"} <= modules
    for name in sorted(modules):
        module = importlib.import_module(name)
        if hasattr(module, "__path__"):
            importlib.import_module(f"{name}.__main__")


def test_the_lanes_of_spark_find_their_tests_without_airflow() -> None:
    """Their environments have what the Makefile puts there: one import more, and no lane runs."""
    without = "import sys; sys.modules['airflow'] = None"
    words = json.dumps([["tests/integration/runtime"]])
    made = subprocess.run(
        [sys.executable, "-c", f"{without}\n{READ}", words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stdout[-4000:]
    assert "test_hand_over.py" in made.stdout


def test_every_long_target_finds_its_tests() -> None:
    wanted = [arguments(target) for target in TESTS]
    for words in wanted:
        paths = [word for word in words if word.startswith("tests/")]
        assert paths
        assert all((ROOT / path).exists() for path in paths)
    # What `make test-system` runs is read by `make test` itself. One process reads the rest: it loads Airflow once.
    rest = [words for target, words in zip(TESTS, wanted, strict=True) if target != "test-system"]
    read = [sys.executable, "-c", READ, json.dumps(rest)]
    found = subprocess.run(read, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def arguments(target: str) -> list[str]:
    """Return which tests a target chooses, as pytest is told."""
    [call] = [line for line in commands(target).splitlines() if "/pytest " in line]
    words = shlex.split(call.partition("/pytest ")[2].rstrip("'"))
    options = ("-m", "-k")
    return [
        word for n, word in enumerate(words) if word in options or words[n - 1] in options or word.startswith("tests/")
    ]


@pytest.mark.parametrize("name", stories.WORLDS)
def test_the_world_of_every_story_is_laid_out_and_its_forms_take_what_the_story_says(name: str, tmp_path: Path) -> None:
    _, control, kind = name.split("+")
    dags = folder_of_dags(tmp_path)
    spec = stories.lay_out_stream(dags, tmp_path / "data", control, storage(kind, tmp_path), BROKERS, CONF)
    made = stream_dags(dags / "streams")
    assert set(stories.DAGS) <= set(made)
    takes(made[stories.DAG], stories.release(spec, "2", "--vat"))
    takes(made[stories.OPERATE], stories.ROLL_BACK)


@pytest.mark.parametrize("pair", [Pair(), Pair(KAFKA, HDFS)], ids=str)
def test_the_world_of_chaos_is_laid_out(pair: Pair, tmp_path: Path) -> None:
    dags = folder_of_dags(tmp_path)
    chaos.lay_out_stream(dags, tmp_path / "data", pair.control, storage(pair.storage, tmp_path), BROKERS, CONF)
    assert load_spec(dags / "streams" / "orders.yaml").name == "orders"
    assert {chaos.UPGRADE_DAG, chaos.OPERATE_DAG} <= set(stream_dags(dags / "streams"))


def folder_of_dags(folder: Path) -> Path:
    """Make the folder that Airflow would read."""
    dags = folder / "dags"
    dags.mkdir()
    return dags


def storage(kind: str, folder: Path) -> Storage:
    """Return a storage as a world has it, without its server."""
    return Storage(str(folder), folder=folder) if kind == FILE else remote_storage(URLS[kind], {"conn_type": "generic"})


def takes(dag: DAG, conf: dict[str, Any]) -> None:
    """Check what is sent to a form as Airflow does."""
    params = copy.deepcopy(dag.params)
    assert set(conf) <= set(params)
    params.update(conf)
    params.validate()
