"""What the README and the docs show must work: every YAML and Python block, every make target, every link."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.operators.release import ReleaseOperator
from airflow_stream_provider.spec.stream import load_spec
from tests.support.offered import PACKAGE, base_of, made_by, offered, own_parameters

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs" / "reference" / "operators.md").read_text()
SECTIONS = dict(re.findall(r"^### (\w+)\n\n(.*?)(?=^##|\Z)", REFERENCE, re.M | re.S))
# Of the two left out, tests/integration/clusters and tests/unit/monitoring/test_known_notifiers.py have tests.
LEFT_OUT = ("own_cluster.py", "orders_notify.py")
EXAMPLES = [path for path in sorted((ROOT / "docs" / "examples").glob("*.py")) if path.name not in LEFT_OUT]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


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


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in re.findall(r"^#+ (.+)$", text, re.M)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text()):
        if not target.startswith("http"):
            there = page.parent / target if target else page
            assert there.exists(), target
            assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


def test_every_file_that_a_page_or_the_code_names_is_there() -> None:
    rooms = (PACKAGE, "benchmarks", "chaos", "dags", "demo", "devstack", "tests")
    code = [path for room in rooms for path in sorted((ROOT / room).rglob("*.py"))]
    named = {
        (str(path.relative_to(ROOT)), name)
        for path in [*PAGES, *code]
        for name in re.findall(
            r"(?<![\w/.-])((?:docs|tests|devstack)/[\w/-]+\.(?:md|py|yaml|png|sha256))\b", path.read_text()
        )
    }
    assert len(named) > 50
    assert [(page, name) for page, name in sorted(named) if not (ROOT / name).exists()] == []


def test_every_target_of_the_makefile_is_documented() -> None:
    text = "".join(page.read_text() for page in PAGES)
    for target in re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.M):
        assert f"make {target}" in text, target


def test_the_dag_files_shown_give_their_dags(tmp_path: Path) -> None:
    named = r"^```(?:yaml|python)\n(# dags/(\S+)\n.*?)^```"
    files = [found for page in PAGES for found in re.findall(named, page.read_text(), re.M | re.S)]
    files += [(path.read_text(), path.name) for path in EXAMPLES]
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
    wanted = {
        "orders__upgrade",
        "streams__watch",
        "shop.streams__revive",
        "look",
        "stop",
        "start",
        "caught_up",
        "hand_over",
        "fence",
        "behind",
    }
    assert wanted <= set(done.stdout.split())


def test_every_python_block_is_a_dag_file() -> None:
    # tests/integration/sinks/test_exactly_once.py runs that of docs/exactly_once.md in a driver.
    for page in (each for each in PAGES if each.name != "exactly_once.md"):
        for text in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S):
            assert text.startswith("# dags/"), "unnamed blocks would not be run by the test above"


def test_the_reference_has_a_section_for_each_class_and_no_other() -> None:
    assert sorted(SECTIONS) == sorted(offered())


@pytest.mark.parametrize(("name", "offer"), offered().items(), ids=list(offered()))
def test_the_reference_names_module_parameters_and_templates(name: str, offer: type) -> None:
    text = SECTIONS[name]
    assert text.startswith(f"`{offer.__module__.partition('.')[2]}`")
    takes, templated = own_parameters(name, offer, made_by(name, offer))
    assert [each for each in takes.names if f"`{each}`" not in text] == []
    assert (base_of(offer) is ReleaseOperator) == ("- Parameters: a release" in text)
    assert sorted(re.findall(r"`(\w+)`†", text)) == sorted(templated)


def test_what_the_reference_says_of_all_stream_operators_is_so() -> None:
    shared = REFERENCE.partition("## An upgrade")[0]
    assert set(re.findall(r"^- `(\w+)`†", shared, re.M)) == set(StreamOperator.template_fields)
    release = re.search(r"^- \*A release\*.*?(?=\n\n)", shared, re.M | re.S)
    assert release is not None
    own = set(ReleaseOperator.template_fields) - set(StreamOperator.template_fields)
    assert set(re.findall(r"`(\w+)`", release[0])) == own


def test_no_page_puts_text_that_others_wrote_into_html() -> None:
    sources = [*PAGES, *sorted((ROOT / PACKAGE).rglob("*.py"))]
    shown = [line for page in sources for line in page.read_text().splitlines() if "html_content" in line]
    assert shown
    assert [line for line in shown if "alert.html" not in line] == []
