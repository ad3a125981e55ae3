"""The columns that the tables of Spark's checks share: what they look at, and on which clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from airflow_stream_provider.audit.check import Broken, Check, Severity, Subject
from airflow_stream_provider.audit.spark.facts import Query, SparkFacts

S = TypeVar("S", bound=Subject)
Scope = Callable[[SparkFacts], Iterable[S]]
SPREAD = ("standalone", "yarn", "kubernetes")
"""The kinds of clusters that have executors of their own."""


@dataclass(frozen=True)
class TheCluster:
    """The subject of a check of the cluster itself."""

    title: str = "the cluster"


def driver(*kinds: str) -> Scope[SparkFacts]:
    """Return the scope of the driver, on these kinds of clusters; default: on all."""
    return lambda facts: (facts,) if not kinds or facts.kind in kinds else ()


def cluster(*kinds: str) -> Scope[TheCluster]:
    """Return the scope of the cluster, if it is of one of these kinds."""
    return lambda facts: (TheCluster(),) if facts.kind in kinds else ()


def queries(*kinds: str) -> Scope[Query]:
    """Return the scope of each query, on these kinds of clusters; default: on all."""
    return lambda facts: facts.queries if not kinds or facts.kind in kinds else ()


def row(
    name: str,
    severity: Severity,
    scope: Scope[S],
    wanted: str,
    why: str,
    fix: str,
    look: Callable[[S, SparkFacts], Broken | None],
) -> Check[Any, SparkFacts, None]:
    """Return a check; see `Check` for the columns."""
    return Check(
        name, severity, lambda facts, _: scope(facts), wanted, why, fix, lambda subject, facts, _: look(subject, facts)
    )
