"""A Kafka that speaks the protocol over real sockets, with as much of it as a control topic needs, and with quotas.

It has one broker, and the topics of `WireKafka`. All of them are empty, and whatever is written gets the offset 5.
"""

from __future__ import annotations

import socket
import threading
from typing import Any
from uuid import UUID

from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from tests.support.wire_kafka import END, KNOWN, WireKafka, end

TOPIC_ID = UUID(int=7)


class WireControlTopic(WireKafka):
    """Starts at once.

    `throttles`: milliseconds by which a quota throttles, one for each of the next answers. A Fetch that it throttles is
    answered as brokers do (`FetchContext.getThrottledResponse`): without an error, and without partitions.
    """

    def __init__(self) -> None:
        self.known = {**KNOWN, FetchRequest: (4, 17), ProduceRequest: (3, 9)}
        self.topic_id = TOPIC_ID
        self.throttles: list[int] = []
        self.written: list[str] = []
        super().__init__()
        self._moved: socket.socket | None = None

    def move(self) -> None:
        """Replace the broker by one at another address. The bootstrap servers stay, as behind a load balancer."""
        gone = [each for each in (self._moved, *self._clients) if each is not None]
        self._moved = socket.create_server(("127.0.0.1", 0))
        self._listeners.append(self._moved)
        self._ports[0] = self._moved.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._moved, 1), daemon=True).start()
        end(*gone)

    def _MetadataRequest(self, request: Any) -> Any:
        response = super()._MetadataRequest(request)
        response.brokers = response.brokers[:1]
        for topic in response.topics:
            topic.topic_id = self.topic_id
        return response

    def _FetchRequest(self, request: Any) -> Any:
        throttled = self._throttled()
        topic = FetchResponse.FetchableTopicResponse
        partition = topic.PartitionData(
            partition_index=0,
            error_code=0,
            high_watermark=END,
            last_stable_offset=END,
            log_start_offset=0,
            aborted_transactions=[],
            preferred_read_replica=-1,
            records=b"",
        )
        found = [] if throttled else [topic(topic_id=each.topic_id, partitions=[partition]) for each in request.topics]
        return FetchResponse(throttle_time_ms=throttled, error_code=0, session_id=0, responses=found, node_endpoints=[])

    def _ProduceRequest(self, request: Any) -> Any:
        topic = ProduceResponse.TopicProduceResponse
        partition = topic.PartitionProduceResponse(
            index=0,
            error_code=0,
            base_offset=END,
            log_append_time_ms=-1,
            log_start_offset=0,
            record_errors=[],
            error_message=None,
        )
        self.written += [each.name for each in request.topic_data]
        found = [topic(name=each.name, partition_responses=[partition]) for each in request.topic_data]
        return ProduceResponse(responses=found, throttle_time_ms=self._throttled())

    def _throttled(self) -> int:
        return self.throttles.pop(0) if self.throttles else 0
