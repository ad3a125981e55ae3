"""Requests about consumer groups, sent to the groups' coordinators; a coordinator may move between two tries."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.kafka.requests import PAUSES, Answers, Problem, Requests, error_sentence, named, no_answer

if TYPE_CHECKING:
    from kafka import KafkaAdminClient, TopicPartition

# Longer pauses than for topics: the first group of a cluster makes Kafka create __consumer_offsets.
COORDINATOR_PAUSES = (*PAUSES, 2.0, 4.0)
GROUP = 0  # Kafka's key type of a group coordinator, as opposed to a transaction coordinator


class GroupRequests:
    """Requests to group coordinators, as coroutines of the client's thread.

    Needs Kafka 3.0 or later, for several groups in one request (KIP-699, KIP-709).
    """

    def __init__(self, admin: KafkaAdminClient, requests: Requests) -> None:
        self._admin = admin
        self._manager = admin._manager
        self._requests = requests

    async def offsets(self, groups: list[str]) -> Answers[str, dict[TopicPartition, int]]:
        """Return the committed offsets of each group; see `KafkaClient.groups_offsets`."""
        from kafka.errors import KafkaError, RequestTimedOutError, RetriableError, for_code

        found: Answers[str, dict[TopicPartition, int]] = Answers()
        left = groups
        for pause in (*COORDINATOR_PAUSES, None):
            again: list[str] = []
            sent: list[tuple[int, list[str], Awaitable[Any]]] = [
                (node, asked, self._manager.call_soon(self._manager.send, self._fetch(asked), node))
                for node, asked in (await self._coordinators(left, found.problems)).items()
            ]
            for node, asked, future in sent:
                try:
                    response = await future
                except (KafkaError, OSError) as error:
                    found.problems.update(dict.fromkeys(asked, no_answer(node, error)))
                    if not isinstance(error, RequestTimedOutError):
                        again += asked
                    continue
                for group in response.groups:
                    self._read(group, found)
            again += [g for g, problem in found.problems.items() if issubclass(for_code(problem.code), RetriableError)]
            if not again or pause is None:
                break
            left = again
            await self._manager._net.sleep(pause)
        return found

    async def commit(self, group: str, offsets: Mapping[TopicPartition, int], metadata: str) -> None:
        """Commit offsets for a group without members; see `KafkaClient.commit_group`.

        :raises kafka.errors.KafkaError: the first error, of the coordinator or of a partition.
        """
        from kafka.errors import NoError, RetriableError, for_code
        from kafka.structs import OffsetAndMetadata

        wanted = {partition: OffsetAndMetadata(offset, metadata, -1) for partition, offset in offsets.items()}
        for pause in (*COORDINATOR_PAUSES, None):
            problems: dict[str, Problem] = {}
            refused: dict[TopicPartition, Any] = {}
            for node in await self._coordinators([group], problems):
                request = self._admin._alter_group_offsets_request(group, wanted)
                answers = self._admin._alter_group_offsets_process_response(await self._manager.send(request, node))
                refused = {partition: error for partition, error in answers.items() if error is not NoError}
            errors = [for_code(problem.code)(problem.reason) for problem in problems.values()]
            others = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
            errors += [
                error(f"{named(partition.topic, partition.partition)}{others}") for partition, error in refused.items()
            ]
            if not errors:
                return
            if pause is None or not isinstance(errors[0], RetriableError):
                raise errors[0]
            await self._manager._net.sleep(pause)

    async def _coordinators(self, groups: list[str], problems: dict[str, Problem]) -> dict[int, list[str]]:
        """Return the groups by coordinator. Always asks: kafka-python's cache keeps coordinators that have moved."""
        from kafka.protocol.metadata import FindCoordinatorRequest

        def request() -> Any:
            return FindCoordinatorRequest(key_type=GROUP, coordinator_keys=groups, min_version=4)

        by_node: dict[int, list[str]] = {}
        for each in (await self._requests.send(request)).coordinators:
            if each.error_code:
                problems[each.key] = Problem(each.error_code, error_sentence(each.error_code, f"group {each.key}"))
            else:
                by_node.setdefault(each.node_id, []).append(each.key)
        return by_node

    def _fetch(self, groups: list[str]) -> Any:
        ((_, request),) = self._admin._list_group_offsets_requests(dict.fromkeys(groups))
        return request

    def _read(self, group: Any, found: Answers[str, dict[TopicPartition, int]]) -> None:
        from kafka import TopicPartition

        rows = [(topic.name, each) for topic in group.topics for each in topic.partitions]
        code = group.error_code or next((each.error_code for _, each in rows if each.error_code), 0)
        if code:
            found.problems[group.group_id] = Problem(code, error_sentence(code, f"group {group.group_id}"))
            return
        found.problems.pop(group.group_id, None)
        found[group.group_id] = {
            TopicPartition(topic, each.partition_index): each.committed_offset
            for topic, each in rows
            if each.committed_offset >= 0
        }
