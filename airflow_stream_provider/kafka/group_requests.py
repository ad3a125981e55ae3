"""Requests about consumer groups, sent to the groups' coordinators; a coordinator may move between two tries."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.kafka.requests import PAUSES, Answers, Problem, Requests, error_sentence, no_answer

if TYPE_CHECKING:
    from kafka import TopicPartition

    from airflow_stream_provider.kafka.internals import Internals

# Longer pauses than for topics: the first group of a cluster makes Kafka create __consumer_offsets.
COORDINATOR_PAUSES = (*PAUSES, 2.0, 4.0)
GROUP = 0  # Kafka's key type of a group coordinator, as opposed to a transaction coordinator


class GroupRequests:
    """Requests to group coordinators, as coroutines of the client's thread.

    Needs Kafka 3.0 or later, for several groups in one request (KIP-699, KIP-709).
    """

    def __init__(self, internals: Internals, requests: Requests) -> None:
        self._kafka = internals
        self._requests = requests

    async def offsets(self, groups: list[str]) -> Answers[str, dict[TopicPartition, int]]:
        """Return the committed offsets of each group; see `KafkaClient.groups_offsets`."""
        from kafka.errors import KafkaError, KafkaTimeoutError, RequestTimedOutError, RetriableError, for_code

        found: Answers[str, dict[TopicPartition, int]] = Answers()
        left = groups
        silent: set[int] = set()
        for pause in (*COORDINATOR_PAUSES, None):
            again: list[str] = []
            sent: list[tuple[int, list[str], Awaitable[Any]]] = [
                (node, asked, self._kafka.soon(self._kafka.send, self._kafka.group_offsets_request(asked), node))
                for node, asked in (await self._coordinators(left, found.problems)).items()
                if node not in silent
            ]
            for node, asked, future in sent:
                try:
                    response = await future
                except (KafkaError, OSError) as error:
                    found.problems.update(dict.fromkeys(asked, no_answer(node, error)))
                    # Kafka names another coordinator once it has noticed that this one is silent.
                    silent.update([node] if isinstance(error, (RequestTimedOutError, KafkaTimeoutError)) else ())
                    again += asked
                    continue
                for group in response.groups:
                    self._read(group, found)
            again += [g for g, problem in found.problems.items() if issubclass(for_code(problem.code), RetriableError)]
            if not again or pause is None:
                break
            left = again
            await self._kafka.sleep(pause)
        return found

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
