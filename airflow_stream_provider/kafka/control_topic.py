"""A control topic through this package's own Kafka client: how Airflow reaches it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from airflow_stream_provider.control.topic import READ_BYTES, Fetched
from airflow_stream_provider.kafka.answers import (
    OFFSET_OUT_OF_RANGE,
    THROTTLED,
    TOPIC_DENIED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    Problem,
)
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.connect import NO_QUOTA, KafkaDenied, KafkaThrottled
from airflow_stream_provider.kafka.control_topic_rules import without_id
from airflow_stream_provider.lifecycle.errors import (
    ControlLogDamaged,
    ControlLogReplaced,
    ControlUnavailable,
    StreamError,
)

# Seconds that a leader waits for the replicas in sync.
WRITE_SECONDS = 5.0
RIGHTS = "Correct the credentials in the connection, or grant its user the rights that docs/control.md lists."
# Kafka's error codes: fewer replicas are in sync than `min.insync.replicas` asks for, before or after the write.
_TOO_FEW = (19, 20)
_STORAGE_ERROR = 56


class KafkaTopic:
    """A control topic; implements `Topic`.

    :param client: returns the open client, which others share; another one, when the brokers have refused that.
    :param conn_id: the Airflow connection, for messages.
    :param name: of the topic.
    :param topic_id: its id, from `KafkaClient.topics`, where many are opened; default: it is asked for.
    """

    def __init__(
        self, client: Callable[[], KafkaClient], conn_id: str, name: str, topic_id: UUID | None = None
    ) -> None:
        from kafka import TopicPartition

        self.name = f"the topic {name} of the Kafka connection {conn_id!r}"
        self._client = client
        self._partition = TopicPartition(name, 0)
        # The id of the topic that was found first: one that is made anew under its name is another one.
        self._id = topic_id

    def topic_id(self) -> str:
        """Return the topic's id; see `Topic.topic_id`."""
        return self._uuid().hex

    def write(self, key: bytes, value: bytes | None, headers: Mapping[str, bytes]) -> int:
        """Write one message; see `Topic.write`. Named by its name, it may go to a topic made anew: `read` notices."""
        try:
            answers = self._client().write(self._partition, key, value, headers, WRITE_SECONDS)
        except StreamError as error:
            raise self._failed(error) from error
        if self._partition not in answers:
            raise self._problem(answers.problems[self._partition])
        return answers[self._partition]

    def read(self, offset: int, size: int = READ_BYTES) -> Fetched:
        """Return the messages from an offset on; see `Topic.read`."""
        ids = {self._partition.topic: self._uuid()}
        try:
            answers = self._client().read({self._partition: offset}, ids, partition_bytes=size)
        except StreamError as error:
            raise self._failed(error) from error
        if self._partition not in answers:
            problem = answers.problems[self._partition]
            raise self._out_of_reach(offset) if problem.code == OFFSET_OUT_OF_RANGE else self._problem(problem)
        return answers[self._partition]

    def check_same(self) -> None:
        """See `Topic.check_same`. Nothing to do: Kafka was asked for this topic by its id."""

    def _uuid(self) -> UUID:
        if self._id is None:
            try:
                described = self._client().topics([self._partition.topic])
            except StreamError as error:
                raise self._failed(error) from error
            if self._partition.topic not in described:
                raise self._problem(described.problems[self._partition.topic])
            topic_id: UUID | None = described[self._partition.topic]["topic_id"]
            if topic_id is None:
                raise without_id(self.name)
            self._id = topic_id
        return self._id

    def _failed(self, error: StreamError) -> ControlUnavailable:
        if isinstance(error, KafkaDenied):
            return self._unavailable(error.message, RIGHTS)
        if isinstance(error, KafkaThrottled):
            return self._unavailable(error.message, error.next_step)
        return error if isinstance(error, ControlUnavailable) else self._unavailable(error.message)

    def _unavailable(self, reason: str, next_step: str = "") -> ControlUnavailable:
        return ControlUnavailable(
            f"The control log in {self.name} cannot be used now: {reason}",
            next_step=next_step or "Check its brokers. Nothing is lost: the drivers wait for it.",
            topic=self._partition.topic,
        )

    def _out_of_reach(self, offset: int) -> ControlLogDamaged:
        return ControlLogDamaged(
            f"{self.name} does not have offset {offset}, which this reader has to go on from: its beginning was "
            "deleted, by retention or by a person, or its end is lost.",
            next_step="Look at its cleanup.policy (it must be compact) and at unclean leader elections. See "
            "docs/operations.md.",
            topic=self._partition.topic,
        )

    def _problem(self, problem: Problem) -> StreamError:
        if problem.code == UNKNOWN_TOPIC_ID:
            return ControlLogReplaced(
                f"{self.name} is not the one that was read before: it was deleted, and perhaps made anew.",
                next_step="Make sure that no driver of the stream from before runs on. See docs/operations.md.",
                topic=self._partition.topic,
            )
        if problem.code == UNKNOWN_TOPIC_OR_PARTITION:
            return ControlUnavailable(
                f"{self.name} does not exist: it was deleted, or the broker that was asked does not know of it yet.",
                next_step="If it stays so, the control log is lost: see 'A damaged control log' in docs/operations.md.",
                topic=self._partition.topic,
            )
        if problem.code == TOPIC_DENIED:
            return self._unavailable("its user may not use it.", RIGHTS)
        if problem.code == THROTTLED:
            return self._unavailable(problem.reason, NO_QUOTA)
        if problem.code in _TOO_FEW:
            return self._unavailable("Fewer of its replicas are in sync than its min.insync.replicas asks for.")
        if problem.code == _STORAGE_ERROR:
            return self._unavailable(
                "The broker that leads it cannot write to its disk, which may be full.",
                "Make room on that disk, and start the broker again. Nothing is lost: the drivers wait for it.",
            )
        return self._unavailable(problem.reason)
