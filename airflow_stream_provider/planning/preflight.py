"""The findings from before an upgrade touches anything: a sentence each, and what to do.

No cluster tells which packages its machines have: a driver that lacks something fails in its first minute, before it
rehearses, and its log is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.job import FOLLOW_FIRST, job_first
from airflow_stream_provider.spec.fields import PACKAGE, packages_in


class PreflightFailed(StreamError):
    """Something was found with which no upgrade may begin; nothing was touched."""


@dataclass(frozen=True)
class Finding:
    """One thing that a person should know.

    :param refuses: whether no upgrade may begin with it; the others are shown, and nothing more.
    """

    text: str
    next_step: str = ""
    refuses: bool = False

    def __str__(self) -> str:
        return f"{self.text} {self.next_step}".strip()


def refuse(findings: Iterable[Finding]) -> list[str]:
    """Return what is to be shown.

    :raises PreflightFailed: one refuses; of several the first.
    """
    found = list(findings)
    worst = next((each for each in found if each.refuses), None)
    if worst is not None:
        raise PreflightFailed(f"{worst.text} Nothing was touched.", next_step=worst.next_step)
    return [str(each) for each in found]


def other_instances(state: StreamState, running: Mapping[str, str]) -> list[Finding]:
    """Return what the cluster runs for a stream besides the drivers that its control log knows to live.

    One of a deployment that the log has never had is refused: it is not known what it does, and a log that was put back
    from an older copy would look the same. One that has ended by the log writes nothing, and exits once it reads that.

    :param running: by an id of the cluster's the deployment, of this control log alone (`Cluster.running`).
    """
    found, seen = [], dict[str, str]()
    for id, deployment in sorted(running.items()):
        known = state.deployments.get(deployment)
        if known is None and deployment not in state.forgotten:
            found.append(
                Finding(
                    f"The cluster runs {id} for this stream, of the deployment {deployment}, and the control log has "
                    "none of that name.",
                    next_step=f"Find out who has started it, and whether the control log was put back from an older "
                    f"copy; end {id} on the cluster. Then trigger again.",
                    refuses=True,
                )
            )
        elif known is None or known.ended:
            how = known.ended.value if known is not None and known.ended else "ended long ago"
            found.append(
                Finding(
                    f"The cluster still runs {id} of {deployment}, which is {how} by the control log.",
                    next_step=f"It exits once it reads that. If it is still there in a minute, end {id} there.",
                )
            )
        elif deployment in seen:
            found.append(
                Finding(
                    f"The cluster runs two drivers of {deployment}: {seen[deployment]} and {id}. One of them holds or "
                    "stands by; the other one was relaunched, or was submitted twice.",
                    next_step="`airflow streams status` names the one that is known: end the other one on the cluster.",
                )
            )
        seen[deployment] = id
    return found


def job_beside(state: StreamState) -> list[Finding]:
    """Return that a job without a stream is about to be adopted, and not confirmed gone."""
    job = job_first(state)
    return [Finding(job, FOLLOW_FIRST, refuses=True)] if job else []


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
