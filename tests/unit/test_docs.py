"""What the README and the docs show must work: every YAML and Python block, every make target, every link."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from airflow_stream_provider.spec.stream import load_spec

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]


def blocks(language: str) -> list[object]:
    return [
        pytest.param(text, id=f"{page.name}-{number}")
        for page in PAGES
        for number, text in enumerate(re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.M | re.S), 1)
    ]


@pytest.mark.parametrize("text", blocks("yaml"))
def test_every_stream_is_valid(text: str, tmp_path: Path) -> None:
    path = tmp_path / "streams" / "stream.yaml"
    path.parent.mkdir()
    path.write_text(text)
    if "name" not in yaml.safe_load(text):  # a part of one: put into a whole one
        whole = yaml.safe_load((ROOT / "dags" / "streams" / "orders.yaml").read_text())
        path.write_text(yaml.safe_dump({**whole, **yaml.safe_load(text)}))
    load_spec(path)


@pytest.mark.parametrize("text", blocks("bash"))
def test_every_make_target_exists(text: str) -> None:
    targets = re.findall(r"^([a-z.-]+):", (ROOT / "Makefile").read_text(), re.M)
    for asked in re.findall(r"^make ([a-z-]+)", text, re.M):
        assert asked in targets or re.sub(r"-[\d.]+$", "-%", asked) in targets, asked


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_every_target_of_the_makefile_is_documented() -> None:
    text = "".join(page.read_text() for page in PAGES)
    for target in re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.M):
        assert f"make {target}" in text, target


def test_the_dag_files_shown_give_their_dags(tmp_path: Path) -> None:
    named = r"^```(?:yaml|python)\n(# dags/(\S+)\n.*?)^```"
    files = [found for page in PAGES for found in re.findall(named, page.read_text(), re.M | re.S)]
    for text, name in files:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    show = "import runpy, sys; print(*(n for f in sys.argv[1:] for n, v in runpy.run_path(f).items()))"
    scripts = [str(tmp_path / name) for _, name in files if name.endswith(".py")]
    done = subprocess.run(
        [sys.executable, "-c", show, *scripts],
        env={**os.environ, "AIRFLOW_HOME": str(tmp_path / "airflow"), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {"orders__upgrade", "orders__watch", "look", "stop", "start"} <= set(done.stdout.split())


def test_every_python_block_is_a_dag_file() -> None:
    for page in PAGES:
        for text in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S):
            assert text.startswith("# dags/"), "unnamed blocks would not be run by the test above"
