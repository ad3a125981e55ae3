"""Which versions of Spark this package was run on for real, and what a release names of Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from airflow_stream_provider.spec.fields import PACKAGE, packages_in

# Of `make test-spark`; docs/compatibility.md has what ran on which patch.
TRIED = ("3.5", "4.0", "4.1", "4.2", "4.3")
TRY_IT = "Try an upgrade and a roll-back of a stream that nobody needs first: docs/compatibility.md."

_JAR = re.compile(r"(?:.*/)?(?P<name>spark-[a-z0-9-]+_2\.\d+)-(?P<version>\d+\.\d+\.\d+[^/]*)\.jar")


def untried(version: str) -> str:
    """Return a sentence where this package was never run on that Spark; empty: it was, or the version is not known."""
    if not version or ".".join(version.split(".")[:2]) in TRIED:
        return ""
    return f"Spark {version} is untried: this provider was run on {', '.join(TRIED[:-1])} and {TRIED[-1]}."


def parts_of_spark(conf: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield names and versions of what is a part of Spark, such as its connector for Kafka."""
    for words in packages_in(conf.get("spark.jars.packages", "")):
        found = PACKAGE.fullmatch(words)
        if found and words.startswith("org.apache.spark:"):
            yield found["name"], found["version"]
    for words in packages_in(conf.get("spark.jars", "")):
        jar = _JAR.fullmatch(words)
        if jar:
            yield jar["name"], jar["version"]
