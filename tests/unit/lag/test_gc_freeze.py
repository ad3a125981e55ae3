from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from airflow_stream_provider.kafka.answers import Answers
from airflow_stream_provider.lag.measure import freeze_heap
from tests.support.kafka_logs import KafkaLogs
from tests.support.lag_reports import measure, of_group


class Node:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    gc.unfreeze()
    freeze_heap.cache_clear()
    yield
    gc.unfreeze()
    freeze_heap.cache_clear()


def test_the_heap_of_before_is_frozen_once_and_what_comes_later_is_collected() -> None:
    freeze_heap()
    frozen = gc.get_freeze_count()
    assert frozen > 1000
    later = weakref.ref(Node())
    freeze_heap()
    assert gc.get_freeze_count() <= frozen
    gc.collect()
    assert later() is None


def test_measuring_freezes_the_heap_and_leaves_the_collector_on() -> None:
    class Kafka(KafkaLogs):
        collects: bool | None = None

        def topics(self, names: Iterable[str]) -> Answers[str, Any]:
            self.collects = gc.isenabled()
            return super().topics(names)

    kafka: Any = Kafka({0: (0, [5.0])})
    assert measure(kafka, [of_group(kafka, "g")]).queries
    assert (kafka.collects, gc.get_freeze_count() > 1000) == (True, True)
