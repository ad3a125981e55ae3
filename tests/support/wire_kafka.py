"""A Kafka of two brokers that speaks the protocol over real sockets, as far as a lag needs it; one may fall silent.

Topics have one partition with five records, led by broker 1; the user may not describe `secret`. All groups have
committed the end of `t`; what their members read is in `assigned`. The groups whose name begins with
`hung` have broker 2 as their coordinator, all others broker 1. Broker 2 may hang: it accepts connections, perhaps
shakes hands, and answers nothing else.
"""

from __future__ import annotations

import contextlib
import io
import socket
import struct
import threading
from typing import Any

import pytest
from kafka.protocol.admin import DescribeGroupsRequest, DescribeGroupsResponse
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse, OffsetFetchRequest, OffsetFetchResponse
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)

from airflow_stream_provider.kafka import connect

# Requests, by API key, with the versions that the broker claims to know.
KNOWN: dict[type[Any], tuple[int, int]] = {
    ApiVersionsRequest: (0, 2),
    DescribeGroupsRequest: (0, 6),
    MetadataRequest: (4, 12),
    FindCoordinatorRequest: (4, 4),
    OffsetFetchRequest: (8, 8),
    ListOffsetsRequest: (7, 7),
}
END = 5
DENIED = 29
FIRST_BYTE, HAND_SHAKE = "from the first byte", "after the hand-shake"


def wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this Kafka time to answer on a busy machine; unit tests wait for none that is not there."""
    monkeypatch.setattr(connect, "CONNECT_MS", 60_000)


def end(*sockets: socket.socket) -> None:
    """Close sockets, also those at which a thread waits; without the shut-down it would go on to accept clients."""
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


class WireKafka:
    """Starts at once; `servers` is for the connection.

    `hangs`: whether broker 2 does, and from when on: FIRST_BYTE or HAND_SHAKE.
    """

    known = KNOWN

    def __init__(self) -> None:
        self.hangs = ""
        self._listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self._ports = [listener.getsockname()[1] for listener in self._listeners]
        self._clients: list[socket.socket] = []
        self.unanswered: list[type[Any]] = []
        self.assigned: dict[str, bytes] = {}
        self.servers = f"127.0.0.1:{self._ports[0]}"
        for number, listener in enumerate(self._listeners, start=1):
            threading.Thread(target=self._accept, args=(listener, number), daemon=True).start()

    def assign(self, group: str, *topics: str) -> None:
        """Let a member of the group read the first partition of these topics."""
        partition = ConsumerProtocolAssignment.TopicPartition
        read = [partition(topic=topic, partitions=[0]) for topic in topics]
        self.assigned[group] = ConsumerProtocolAssignment(version=0, assigned_partitions=read, user_data=b"").encode()

    def close(self) -> None:
        """Close all sockets, also those that are waited at."""
        end(*self._listeners, *self._clients)

    def _accept(self, listener: socket.socket, number: int) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self._clients.append(client)
            threading.Thread(target=self._serve, args=(client, number), daemon=True).start()

    def _serve(self, client: socket.socket, number: int) -> None:
        stream = client.makefile("rb")
        try:
            while size := stream.read(4):
                data = stream.read(struct.unpack(">i", size)[0])
                key, version = struct.unpack(">hh", data[:4])
                kind = next(each for each in self.known if key == each.API_KEY)
                shakes_hands = self.hangs == HAND_SHAKE and kind is ApiVersionsRequest
                if number == 1 or not self.hangs or shakes_hands:
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
        known = [ApiVersionsResponse.ApiVersion(kind.API_KEY, *versions) for kind, versions in self.known.items()]
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
        topics = [
            topic(error_code=DENIED, name=name, is_internal=False, partitions=[])
            if name == "secret"
            else topic(error_code=0, name=name, is_internal=False, partitions=[partition])
            for name in names
        ]
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

    def _DescribeGroupsRequest(self, request: Any) -> Any:
        group = DescribeGroupsResponse.DescribedGroup

        assert request.API_VERSION <= 5, "from version 6 on, Kafka has an error for a group that it does not know"

        def described(name: str) -> Any:
            member = group.DescribedGroupMember(
                member_id="m",
                group_instance_id=None,
                client_id="c",
                client_host="/127.0.0.1",
                member_metadata=b"",
                member_assignment=self.assigned.get(name, b""),
            )
            return group(
                error_code=0,
                group_id=name,
                group_state="Stable",
                protocol_type="consumer",
                protocol_data="range",
                members=[member],
                authorized_operations=set(),
            )

        return DescribeGroupsResponse(throttle_time_ms=0, groups=[described(name) for name in request.groups])

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
