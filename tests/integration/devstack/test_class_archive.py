"""JVMs of Spark map the archive of classes: one that did not fit their class path would be ignored without a word."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from devstack import class_archive
from devstack.processes import java
from devstack.spark import bundled_spark, spark_class_path

LIBRARIES = "/nowhere/conf/:{}:/nowhere/kafka.jar"


@pytest.fixture(scope="module")
def archive() -> Path:
    """That of `make test`; made here when there is none."""
    found = Path(class_archive.__file__).parents[1] / "build" / "spark.jsa"
    if not found.exists():
        class_archive.make(found)
    return found


@pytest.mark.parametrize("of", ["{}", LIBRARIES], ids=["master and worker", "driver and executor"])
def test_a_jvm_of_spark_maps_the_archive(archive: Path, of: str, tmp_path: Path) -> None:
    loaded = tmp_path / "loaded"
    options = ["-XX:+UseSerialGC", f"-XX:SharedArchiveFile={archive}", f"-Xlog:class+load:file={loaded}"]
    words = [java(), *options, "-cp", of.format(spark_class_path(bundled_spark()))]
    subprocess.run([*words, "org.apache.spark.deploy.SparkSubmit", "--version"], check=True, capture_output=True)
    assert loaded.read_text().count("shared objects file (top)") > 100
