from __future__ import annotations

from tests.support.one_broker import client, kafka, new_topic

__all__ = ["client", "kafka", "new_topic"]
