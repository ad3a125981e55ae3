from __future__ import annotations

from devstack.producer import Producer


def test_a_producer_that_was_not_started_has_sent_nothing() -> None:
    producer = Producer("127.0.0.1:1", "orders", rate=1)
    assert producer.stop() == 0
