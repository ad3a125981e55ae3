"""Fixtures: a control log in a topic in memory, which the product's own store writes."""

from __future__ import annotations

import pytest

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.control.topic_store import TopicStore
from tests.support.simulated_topic import SimulatedLog, SimulatedTopic


@pytest.fixture
def brokers() -> SimulatedLog:
    return SimulatedLog()


@pytest.fixture
def log(brokers: SimulatedLog) -> ControlLog:
    return ControlLog(TopicStore(SimulatedTopic(brokers), "orders"), "orders")
