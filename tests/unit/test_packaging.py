"""What the package says of itself: one version, one address, metadata for an index, the licence."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from airflow_stream_provider import __version__
from airflow_stream_provider.get_provider_info import get_provider_info

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# A release names its version in the changelog; requirements.txt has the versions of other packages.
HAVE_VERSIONS = {"CHANGELOG.md", "requirements.txt"}


def test_the_version_stands_in_one_file() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    version = re.compile(rf"(?<![\d.]){re.escape(__version__)}(?![\d.])")
    found = {
        name
        for name in listed.split("\0")
        if name and (ROOT / name).is_file() and version.search((ROOT / name).read_text(errors="replace"))
    }
    assert found - HAVE_VERSIONS == {"airflow_stream_provider/__init__.py"}
    assert PROJECT["dynamic"] == ["version"]


def test_the_wheel_has_the_package_and_nothing_beside_it() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert build["targets"]["wheel"]["packages"] == ["airflow_stream_provider"]
    assert (ROOT / "chaos").is_dir()


def test_the_changelog_has_this_version() -> None:
    versions = re.findall(r"^## \[?([^\]\s]+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert __version__ in versions


def test_airflow_and_the_index_show_one_documentation() -> None:
    (integration,) = get_provider_info()["integrations"]
    assert PROJECT["urls"]["Documentation"] == integration["external-doc-url"]
    assert PROJECT["name"] == get_provider_info()["package-name"]


def test_metadata_for_an_index() -> None:
    classifiers = PROJECT["classifiers"]
    assert {"Framework :: Apache Airflow :: Provider", "Typing :: Typed"} < set(classifiers)
    assert classifiers == sorted(set(classifiers))
    assert not [each for each in classifiers if each.startswith("License ::")], "the expression in `license` says it"
    assert PROJECT["keywords"]
    assert PROJECT["license"] == "Apache-2.0"
    (licence,) = PROJECT["license-files"]
    assert "Apache License\n                           Version 2.0, January 2004" in (ROOT / licence).read_text()


def test_reading_the_provider_info_imports_nothing_heavy() -> None:
    """Airflow reads it at every start of its command line."""
    code = (
        "import sys; from airflow_stream_provider.get_provider_info import get_provider_info as g; g();"
        "print(*sorted({m.split('.')[0] for m in sys.modules} - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"__main__", "airflow_stream_provider"}


def test_every_requirement_is_pinned_with_its_hashes_and_names_no_registry() -> None:
    text = (ROOT / "requirements.txt").read_text()
    entries = re.split(r"\n(?=[A-Za-z0-9])", text.replace("\\\n", " ").partition("\n")[2])
    found = [entry for entry in entries if not entry.startswith("#")]
    assert len(found) > 100
    assert [
        entry.split()[0] for entry in found if not re.match(r"[\w.-]+(\[[\w,]+\])?==\S+ .*--hash=sha256:", entry)
    ] == []
    assert re.search(r"https?:|file:|--(extra-)?index-url|--find-links", text) is None


def test_what_installs_them_asks_for_the_hashes() -> None:
    make, docker = (ROOT / "Makefile").read_text(), (ROOT / "docker" / "airflow" / "Dockerfile").read_text()
    assert "--require-hashes --requirements requirements.txt" in make
    assert "--require-hashes --requirement /src/requirements.txt" in docker
    image = re.search(r"^FROM apache/airflow:([\d.]+)", docker, re.M)
    assert image is not None
    assert f"\napache-airflow=={image[1]} " in (ROOT / "requirements.txt").read_text()


def test_what_is_needed_and_no_more_is_required() -> None:
    required = {re.split(r"[<>=]", each)[0]: each for each in PROJECT["dependencies"]}
    assert "pyyaml" in required
    assert "tenacity" not in required
    # 1.13.0 is the first that knows `run_after`, without which the old release would be retired at once.
    assert required["apache-airflow-providers-standard"] == "apache-airflow-providers-standard>=1.13.0"
    # Its connection type is the one that people fill in.
    assert "apache-airflow-providers-apache-spark" in required
    # Its master has no `kafka.net.selector`, nor other names of tests/unit/kafka/test_internals.py.
    assert required["kafka-python"].endswith(",<3.1")


def test_nothing_installs_pyspark_and_its_client_at_two_versions() -> None:
    """They write the same files."""
    pyspark, client = PROJECT["optional-dependencies"]["pyspark"]
    version = pyspark.removeprefix("pyspark==")
    assert client == f"pyspark-client=={version}"
    make, pins = (ROOT / "Makefile").read_text(), (ROOT / "requirements.txt").read_text()
    tested = re.search(r"^SPARK_VERSIONS := (.+)$", make, re.M)
    assert tested is not None
    assert version in tested[1].split()
    pinned = re.findall(r"^pyspark(?:-client)?==(\S+)", pins, re.M)
    assert len(pinned) == 2
    assert len(set(pinned)) == 1


def test_the_airflows_are_the_same_everywhere() -> None:
    oldest = re.search(r"^OLDEST_AIRFLOW := (3\.\d+)\.\d+$", (ROOT / "Makefile").read_text(), re.M)
    assert oldest is not None
    assert f"apache-airflow>={oldest[1]},<4" in PROJECT["dependencies"]
    for page in ("README.md", "docs/compatibility.md"):
        assert f"{oldest[1]} or later, below 4, with a triggerer" in (ROOT / page).read_text(), page


def test_the_pythons_are_the_same_everywhere() -> None:
    named = re.findall(r"Programming Language :: Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert named == ["3.11", "3.12", "3.13"]
    assert PROJECT["requires-python"] == ">=3.11,<3.14"
    assert "(3, 11) <= sys.version_info[:2] <= (3, 13)" in (ROOT / "Makefile").read_text()
