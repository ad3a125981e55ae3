"""What every test of this folder may have: a master, YARN, and pods."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_stream_provider.clusters.yarn import YarnCluster
from tests.support.fake_master import Master
from tests.support.fake_yarn import FakeYarn
from tests.support.pods import Pods, pods_in


@pytest.fixture
def master() -> Iterator[Master]:
    started = Master()
    yield started
    started.close()


@pytest.fixture
def fake() -> Iterator[FakeYarn]:
    found = FakeYarn()
    yield found
    found.close()


@pytest.fixture
def cluster(fake: FakeYarn) -> YarnCluster:
    return fake.cluster()


@pytest.fixture(scope="package")
def standin_pods(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pods]:
    with pods_in(tmp_path_factory.mktemp("kubernetes")) as found:
        yield found


@pytest.fixture
def pods(standin_pods: Pods) -> Iterator[Pods]:
    yield standin_pods
    standin_pods.clear()
