"""A control topic through the Kafka client that Spark's connector brings: how a driver reaches it.

The driver's JVM has it on its class path, also before there is a session, where the connector came with the submission
(``--jars`` or ``spark.jars``). Nothing else is needed on the driver's machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any

from py4j.protocol import Py4JJavaError

from airflow_stream_provider.control.topic import READ_BYTES, Fetched, Message
from airflow_stream_provider.lifecycle.errors import (
    ControlLogDamaged,
    ControlLogReplaced,
    ControlUnavailable,
    SpecError,
)
from airflow_stream_provider.runtime.jvm import gateway

# Milliseconds. A write that is not acknowledged by then may be there all the same; all of it fits into a sixth of the
# default lease.
REQUEST_MS, DELIVERY_MS = 4_000, 4_500
# Milliseconds. A former leader that is cut off from the others refuses writes because too few replicas are in sync, and
# goes on answering reads. Neither makes Kafka's clients look for another leader: only the age of their metadata does,
# which is five minutes by default. Within half a lease, after which a driver pauses.
METADATA_MS = 5_000
# A client that reaches none of the brokers it knows begins again with the bootstrap servers: all brokers may have been
# replaced meanwhile. Kafka's clients have it since 3.8; the older ones of Spark 3.5 would warn of an unknown name.
_RECOVERY, _REBOOTSTRAP = "metadata.recovery.strategy", "rebootstrap"
_BYTES = "org.apache.kafka.common.serialization.ByteArray"
# The settings that this package relies on, whatever a file of settings says. A message must not be sent twice
# (`topic_index`), and no message be skipped.
_PRODUCER = {
    "metadata.max.age.ms": str(METADATA_MS),
    "acks": "all",
    "enable.idempotence": "false",
    "retries": "0",
    "linger.ms": "0",
    "max.in.flight.requests.per.connection": "1",
    "delivery.timeout.ms": str(DELIVERY_MS),
    "request.timeout.ms": str(REQUEST_MS),
    "max.block.ms": str(REQUEST_MS),
    "max.request.size": str(64 * 2**20),
    "compression.type": "none",
    "key.serializer": f"{_BYTES}Serializer",
    "value.serializer": f"{_BYTES}Serializer",
}
_CONSUMER = {
    "metadata.max.age.ms": str(METADATA_MS),
    "auto.offset.reset": "none",
    "enable.auto.commit": "false",
    "isolation.level": "read_uncommitted",
    "allow.auto.create.topics": "false",
    # A broker answers one request of a connection after the other: a fetch that waits for messages holds up all others.
    "fetch.max.wait.ms": "1",
    "default.api.timeout.ms": str(REQUEST_MS),
    "request.timeout.ms": str(REQUEST_MS),
    "key.deserializer": f"{_BYTES}Deserializer",
    "value.deserializer": f"{_BYTES}Deserializer",
}
_OPERATIONS = ("READ", "WRITE", "DESCRIBE")
_MAY_NOT = "the driver's user may not use it: "
_REFUSED = "Kafka refuses the driver's credentials: "
_RIGHTS = "Grant READ, WRITE and DESCRIBE on the topic to the user that the driver's settings name."
_CREDENTIALS = "Correct user, password or certificates in the file that the driver's STREAM_CONTROL_PROPERTIES names."
_REPLICAS = "Start its brokers again. Nothing is lost: drivers wait for it."
_TOO_FEW = "fewer of its replicas are in sync than its min.insync.replicas asks for: "
_DISK = "the broker that leads it cannot write to its disk, which may be full: "
_MAKE_ROOM = "Make room on that disk, and start the broker again. Nothing is lost: drivers wait for it."
_GONE = "it does not exist, or the broker that was asked does not know of it yet: "
# Messages for people on some of Kafka's errors: their meaning, and what to do.
_DENIED = {
    "TopicAuthorizationException": (_MAY_NOT, _RIGHTS),
    "ClusterAuthorizationException": (_MAY_NOT, _RIGHTS),
    "SaslAuthenticationException": (_REFUSED, _CREDENTIALS),
    "SslAuthenticationException": (_REFUSED, _CREDENTIALS),
}
_MEANING = {
    **_DENIED,
    "NotEnoughReplicasException": (_TOO_FEW, _REPLICAS),
    "NotEnoughReplicasAfterAppendException": (_TOO_FEW, _REPLICAS),
    "KafkaStorageException": (_DISK, _MAKE_ROOM),
    "UnknownTopicOrPartitionException": (_GONE, "If it stays so, the log is lost: docs/trouble/damaged_log.md."),
}
_SECURITY, _PLAIN = "security.protocol", "PLAINTEXT"
# A client without TLS or passwords sees no more of a listener with them than that it does not answer.
_UNANSWERED = f"no broker has answered, and the driver asks without TLS and without a password ({_SECURITY}={_PLAIN}): "
_SET_SECURITY = (
    f"If that listener is one with TLS or passwords: put a file with {_SECURITY} and what belongs to it on the "
    "driver's machine, and name it by STREAM_CONTROL_PROPERTIES in `environment` (docs/control.md). Otherwise check "
    "its brokers, and this driver's network."
)
_ADMIN = {"request.timeout.ms": str(REQUEST_MS), "default.api.timeout.ms": str(REQUEST_MS)}


class TopicDenied(ControlUnavailable):
    """Kafka refuses the driver's credentials, or its user lacks a right: only a person can change that."""


class JvmTopic:
    """A control topic; implements `Topic`. Not thread-safe.

    :param topic: its name.
    :param settings: of Kafka's Java clients, as `java.util.Properties`: `bootstrap.servers` and, where it is needed,
        security. They stay in the JVM: py4j logs what passes through it, where a script asks for that.
    :raises SpecError: the JVM has no Kafka client, or refuses the settings.
    :raises TopicDenied: Kafka refuses the credentials, or the user may not read and write the topic.
    :raises ControlUnavailable: Kafka does not answer, or has no such topic.
    """

    def __init__(self, topic: str, settings: Any) -> None:
        self.name = f"the topic {topic} of {settings.getProperty('bootstrap.servers')}"
        self._topic = topic
        self._settings = settings
        self._id = ""
        self._jvm = gateway().jvm
        self._kafka = self._jvm.org.apache.kafka
        # First, so that nothing is left of a topic that cannot be opened.
        self._id = self._describe(check_rights=True)
        producer, consumer = self._kafka.clients.producer, self._kafka.clients.consumer
        self._producer = self._client(lambda: producer.KafkaProducer, _PRODUCER | recovery(producer.ProducerConfig))
        self._consumer = self._client(lambda: consumer.KafkaConsumer, _CONSUMER | recovery(consumer.ConsumerConfig))
        self._partition = self._kafka.common.TopicPartition(topic, 0)
        self._only = self._jvm.java.util.List.of(self._partition)
        self._consumer.assign(self._only)
        self._next = -1

    def topic_id(self) -> str:
        """Return the topic's id; see `Topic.topic_id`."""
        return self._id

    def write(self, key: bytes, value: bytes | None, headers: Mapping[str, bytes]) -> int:
        """Write one message; see `Topic.write`."""
        record = self._kafka.clients.producer.ProducerRecord(self._topic, 0, key, value)
        for name, data in headers.items():
            record.headers().add(name, data)
        wait = self._jvm.java.util.concurrent.TimeUnit.MILLISECONDS
        try:
            return int(self._producer.send(record).get(2 * DELIVERY_MS, wait).offset())
        except Py4JJavaError as error:
            raise self._unavailable(error) from error

    def read(self, offset: int, size: int = READ_BYTES) -> Fetched:
        """Return the messages from an offset on; see `Topic.read`."""
        try:
            end = int(self._consumer.endOffsets(self._only).get(self._partition))
            if offset == end:
                return Fetched((), offset, end)
            if offset != self._next:
                self._consumer.seek(self._partition, offset)
            polled = self._consumer.poll(self._jvm.java.time.Duration.ofMillis(REQUEST_MS))
            messages, all_of_them = self._messages(polled, size)
            behind = int(self._consumer.position(self._partition)) if all_of_them else messages[-1].offset + 1
            self._next = behind if all_of_them else -1
        except Py4JJavaError as error:
            self._next = -1
            if _kind(error) in ("OffsetOutOfRangeException", "LogTruncationException"):
                self.check_same()
                raise self._out_of_reach(offset) from error
            raise self._unavailable(error) from error
        return Fetched(messages, behind, end)

    def check_same(self) -> None:
        """See `Topic.check_same`."""
        if self._describe() != self._id:
            raise ControlLogReplaced(
                f"{self.name} is not the one that was read before: it was deleted and made anew.",
                next_step="Make sure that no driver of the stream from before runs on: docs/trouble/damaged_log.md.",
                topic=self._topic,
            )

    def _client(self, find: Callable[[], Any], ours: Mapping[str, str]) -> Any:
        # The thread's own loader has the jars that came with the submission; Kafka's clients look there for classes.
        properties = self._jvm.java.util.Properties()
        properties.putAll(self._settings)
        for name, value in ours.items():
            properties.setProperty(name, value)
        try:
            return find()(properties)
        except TypeError as error:  # what py4j does not find is a package
            raise SpecError(
                "The driver's JVM has no Kafka client on its class path, and the control log is in Kafka.",
                next_step="Add the jars of Spark's Kafka connector to the submission: spark.jars.packages or "
                "spark.jars in `conf`, not inside the script.",
            ) from error
        except Py4JJavaError as error:
            raise SpecError(
                f"Kafka's client refuses its settings for {self.name}: {_kind(error)}.",
                next_step="Correct the file that the driver's settings come from. The driver's log has the reason.",
            ) from error

    def _describe(self, check_rights: bool = False) -> str:
        """Return the topic's id."""
        admin = self._client(lambda: self._kafka.clients.admin.AdminClient.create, _ADMIN)
        try:
            seconds = self._jvm.java.util.concurrent.TimeUnit.MILLISECONDS
            options = self._kafka.clients.admin.DescribeTopicsOptions().includeAuthorizedOperations(check_rights)
            asked = admin.describeTopics(self._jvm.java.util.List.of(self._topic), options)
            found = asked.allTopicNames().get(REQUEST_MS, seconds).get(self._topic)
            topic_id, allowed = found.topicId(), found.authorizedOperations()
        except Py4JJavaError as error:
            raise self._unavailable(error) from error
        finally:
            admin.close(self._jvm.java.time.Duration.ZERO)
        if allowed is not None:  # a broker that does not say it refuses the first write
            self._check_rights({str(each.name()) for each in allowed.toArray()})
        halves = (topic_id.getMostSignificantBits(), topic_id.getLeastSignificantBits())
        return "".join(f"{int(half) % 2**64:016x}" for half in halves)

    def _check_rights(self, allowed: Set[str]) -> None:
        """Check them before the first write: a driver that may only read would wait for ever, and could not say why."""
        lacking = [name for name in _OPERATIONS if name not in allowed]
        if lacking:
            raise TopicDenied(
                f"The control log in {self.name} cannot be used: {_MAY_NOT}it lacks {' and '.join(lacking)}.",
                next_step=_RIGHTS,
                topic=self._topic,
            )

    def _messages(self, polled: Any, size: int) -> tuple[tuple[Message, ...], bool]:
        """Return messages of about this size, and whether they are all.

        Each takes py4j a millisecond, and a poll returns hundreds.
        """
        messages: list[Message] = []
        left = polled.iterator()
        while left.hasNext():
            if size <= 0:
                return tuple(messages), False
            found = left.next()
            # Kafka knows headers without a value, which no version of this package writes.
            headers = {each.key(): bytes(each.value() or b"") for each in found.headers().toArray()}
            key, value = found.key(), found.value()
            message = Message(
                int(found.offset()),
                None if key is None else bytes(key),
                None if value is None else bytes(value),
                headers,
                int(found.timestamp()) / 1000,
            )
            messages.append(message)
            size -= len(message.value or b"") + sum(map(len, headers.values()))
        return tuple(messages), True

    def _unavailable(self, error: Py4JJavaError) -> ControlUnavailable:
        kind = _kind(error)
        found, next_step = _MEANING.get(
            kind, ("", "Check its brokers, and this driver's network. Nothing is lost: drivers wait for it.")
        )
        # Once it is open, the settings are right.
        if not self._id and kind == "TimeoutException" and self._settings.getProperty(_SECURITY, _PLAIN) == _PLAIN:
            found, next_step = _UNANSWERED, _SET_SECURITY
        error_class = TopicDenied if kind in _DENIED else ControlUnavailable
        return error_class(
            f"The control log in {self.name} cannot be used now: {found}{kind}.", next_step=next_step, topic=self._topic
        )

    def _out_of_reach(self, offset: int) -> ControlLogDamaged:
        return ControlLogDamaged(
            f"{self.name} does not have offset {offset}, which this driver has to go on from: its beginning was "
            "deleted, by retention or by a person, or its end is lost.",
            next_step="See docs/trouble/damaged_log.md.",
            topic=self._topic,
        )


def recovery(config: Any) -> dict[str, str]:
    """Return what makes a client go back to the bootstrap servers, if it knows that.

    :param config: its class of settings in the JVM, such as `ProducerConfig`.
    """
    return {_RECOVERY: _REBOOTSTRAP} if config.configNames().contains(_RECOVERY) else {}


def _kind(error: Py4JJavaError) -> str:
    """Return the class of a Java error, or of what it wraps: its text may hold settings."""
    java = error.java_exception
    if java.getClass().getSimpleName() == "ExecutionException" and java.getCause() is not None:
        java = java.getCause()
    return str(java.getClass().getSimpleName())
