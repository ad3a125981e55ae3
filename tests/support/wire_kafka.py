"""A Kafka of two brokers that speaks the protocol over real sockets, as far as a lag needs it; one may fall silent.

The topic `t` has one partition with no record that is not committed, led by broker 1. The groups whose name begins with
`hung` have broker 2 as their coordinator, all others broker 1. Broker 2 accepts connections, perhaps shakes hands, and
answers nothing else.
"""

from __future__ import annotations

import io
import socket
import struct
import threading
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse, OffsetFetchRequest, OffsetFetchResponse
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)

# Requests, by API key, with the versions that the broker claims to know.
KNOWN: dict[type[Any], tuple[int, int]] = {
    ApiVersionsRequest: (0, 2),
    MetadataRequest: (4, 12),
    FindCoordinatorRequest: (4, 4),
    OffsetFetchRequest: (8, 8),
    ListOffsetsRequest: (7, 7),
}
END = 5


class WireKafka:
    """Starts at once; `servers` is for the connection.

    :param shakes_hands: whether broker 2 answers the first request of a connection, like one that hangs later.
    """

    def __init__(self, shakes_hands: bool) -> None:
        self._listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self._ports = [listener.getsockname()[1] for listener in self._listeners]
        self._clients: list[socket.socket] = []
        self.unanswered: list[type[Any]] = []
        self.servers = f"127.0.0.1:{self._ports[0]}"
        for listener, answers in zip(
            self._listeners, (tuple(KNOWN), (ApiVersionsRequest,) if shakes_hands else ()), strict=False
        ):
            threading.Thread(target=self._accept, args=(listener, answers), daemon=True).start()

    def close(self) -> None:
        """Close all sockets."""
        for each in (*self._listeners, *self._clients):
            each.close()

    def _accept(self, listener: socket.socket, answers: tuple[type[Any], ...]) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self._clients.append(client)
            threading.Thread(target=self._serve, args=(client, answers), daemon=True).start()

    def _serve(self, client: socket.socket, answers: tuple[type[Any], ...]) -> None:
        stream = client.makefile("rb")
        try:
            while size := stream.read(4):
                data = stream.read(struct.unpack(">i", size)[0])
                key, version = struct.unpack(">hh", data[:4])
                kind = next(each for each in KNOWN if key == each.API_KEY)
                if kind in answers:
                    client.sendall(self._response(kind, version, data))
                else:
                    self.unanswered.append(kind)
        except OSError:
            return

    def _response(self, kind: type[Any], version: int, data: bytes) -> bytes:
        header = kind.parse_header(io.BytesIO(data), version=version)
        request = kind.decode(data, version=version, header=True)
        response = getattr(self, f"_{kind.name}")(request)
        response.API_VERSION = version
        response.with_header(header.correlation_id)
        encoded: bytes = response.encode(header=True, framed=True)
        return encoded

    def _ApiVersionsRequest(self, request: Any) -> Any:
        known = [ApiVersionsResponse.ApiVersion(kind.API_KEY, *versions) for kind, versions in KNOWN.items()]
        return ApiVersionsResponse(error_code=0, api_keys=known, throttle_time_ms=0)

    def _MetadataRequest(self, request: Any) -> Any:
        broker, topic = MetadataResponse.MetadataResponseBroker, MetadataResponse.MetadataResponseTopic
        brokers = [
            broker(node_id=number, host="127.0.0.1", port=port, rack=None)
            for number, port in enumerate(self._ports, start=1)
        ]
        partition = topic.MetadataResponsePartition(
            error_code=0, partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1], offline_replicas=[]
        )
        names = [each.name for each in request.topics or ()]
        topics = [topic(error_code=0, name=name, is_internal=False, partitions=[partition]) for name in names]
        return MetadataResponse(brokers=brokers, cluster_id="wire", controller_id=1, topics=topics)

    def _FindCoordinatorRequest(self, request: Any) -> Any:
        def coordinator(group: str) -> Any:
            node = 2 if group.startswith("hung") else 1
            return FindCoordinatorResponse.Coordinator(
                key=group, node_id=node, host="127.0.0.1", port=self._ports[node - 1], error_code=0, error_message=None
            )

        return FindCoordinatorResponse(coordinators=[coordinator(group) for group in request.coordinator_keys])

    def _OffsetFetchRequest(self, request: Any) -> Any:
        group = OffsetFetchResponse.OffsetFetchResponseGroup
        topic = group.OffsetFetchResponseTopics
        partition = topic.OffsetFetchResponsePartitions(
            partition_index=0, committed_offset=END, committed_leader_epoch=-1, metadata="", error_code=0
        )
        topics = [topic(name="t", partitions=[partition])]
        return OffsetFetchResponse(
            groups=[group(group_id=each.group_id, topics=topics, error_code=0) for each in request.groups]
        )

    def _ListOffsetsRequest(self, request: Any) -> Any:
        topic = ListOffsetsResponse.ListOffsetsTopicResponse
        found = [
            topic(
                name=each.name,
                partitions=[
                    topic.ListOffsetsPartitionResponse(
                        partition_index=asked.partition_index,
                        error_code=0,
                        offset=0 if asked.timestamp == -2 else END,
                        timestamp=-1,
                        leader_epoch=-1,
                    )
                    for asked in each.partitions
                ],
            )
            for each in request.topics
        ]
        return ListOffsetsResponse(topics=found)
