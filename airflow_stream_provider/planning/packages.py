"""Whether the packages that a release names can fit the cluster's Spark. Pure.

No cluster tells which packages its machines have: a driver that lacks something fails in its first minute, before it
rehearses, and its log is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from airflow_stream_provider.planning.preflight import Finding
from airflow_stream_provider.spec.fields import PACKAGE, packages_in

_JAR = re.compile(r"(?:.*/)?(?P<name>spark-[a-z0-9-]+_2\.\d+)-(?P<version>\d+\.\d+\.\d+[^/]*)\.jar")


def package_findings(conf: Mapping[str, str], spark: str) -> list[Finding]:
    """Return what is wrong with the packages and jars in a release's conf.

    :param spark: version of Spark that drivers run there, from the last heartbeat; empty: not known.
    """
    found = []
    for words in packages_in(conf.get("spark.jars.packages", "")):
        if not PACKAGE.fullmatch(words):
            found.append(
                Finding(
                    f"{words!r:.200} in spark.jars.packages is no package.",
                    next_step="Write GROUP:NAME:VERSION, several separated by commas.",
                    refuses=True,
                )
            )
    other = [(name, version) for name, version in _of_spark(conf) if spark and version != spark]
    if other:
        named = ", ".join(f"{name} {version}" for name, version in other)
        found.append(
            Finding(
                f"The release names {named}, and drivers of this stream run Spark {spark}, by the last heartbeat.",
                next_step="Where Spark stays as it is, name the packages of its version.",
            )
        )
    return found


def _of_spark(conf: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """Yield names and versions of what is a part of Spark, such as its connector for Kafka."""
    for words in packages_in(conf.get("spark.jars.packages", "")):
        found = PACKAGE.fullmatch(words)
        if found and words.startswith("org.apache.spark:"):
            yield found["name"], found["version"]
    for words in packages_in(conf.get("spark.jars", "")):
        jar = _JAR.fullmatch(words)
        if jar:
            yield jar["name"], jar["version"]
