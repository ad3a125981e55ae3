from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from devstack.spark import Spark
from tests.support.faulty import Faulty, Start, TwoHosts, begin, end, two_hosts


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoHosts]:
    with two_hosts(tmp_path_factory.mktemp("cluster")) as (spark, _):
        yield spark


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a job of a kind; what it is given beside its conf are environment variables."""
    jobs: list[Faulty] = []

    def started(kind: str, spark: Spark | None, conf: Mapping[str, str] = {}, **variables: str) -> Faulty:
        jobs.append(begin(tmp_path / f"{kind}-{len(jobs)}", kind, spark, conf, variables))
        return jobs[-1]

    yield started
    for job in jobs:
        end(job)
