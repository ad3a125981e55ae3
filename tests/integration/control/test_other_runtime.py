"""A runtime of format 1 and today's on one control log in a topic of a real broker: see `tests.support.two_versions`.

Each reads what the other writes there: records, heartbeats with their index of the topic, and the saved state.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.kafka.control_root import TopicRoot
from tests.support.one_broker import kafka, root_of
from tests.support.other_side import OtherSide, side
from tests.support.two_versions import VERSIONS, hand_over_and_back

__all__ = ["kafka", "root_of", "side"]

_numbers = itertools.count(1)


@pytest.mark.system  # four cold JVMs each
@pytest.mark.parametrize(("airflow", "one", "two"), VERSIONS)
def test_two_drivers_hand_over_and_back_and_both_sides_see_the_same(
    root_of: Callable[[str], TopicRoot], side: Callable[..., OtherSide], airflow: str, one: str, two: str
) -> None:
    root = root_of(f"streams-{next(_numbers)}")
    root.make()
    log = ControlLog(root.store("orders", create=True), "orders")
    _, brokers = root.driver_arguments()
    hand_over_and_back(log, lambda version: side(version, root.url, brokers), airflow, one, two)
