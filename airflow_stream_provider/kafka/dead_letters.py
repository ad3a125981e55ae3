"""Read single records of Kafka, and copy them to a dead-letter topic, each once.

Unlike `records.py` by kafka-python's own consumer and producer: headers keep their order and doubles, and a broker that
is asked again after a lost answer writes nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.kafka.connect import stream_error
from airflow_stream_provider.kafka.settings import client_settings
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.skip import KafkaRecord

if TYPE_CHECKING:
    from kafka import KafkaConsumer

# The longest wait for an answer, in seconds.
ANSWER_SECONDS = 30.0
# Bytes of a letter; what a topic takes is the broker's own limit.
LARGEST = 64 * 2**20
# So many of the last letters of a partition are looked at for one that was written already.
LOOKED_BACK = 10_000
# The headers that a letter has besides those of its record.
STREAM, TOPIC, PARTITION, OFFSET, TIMESTAMP, ERROR = (
    f"airflow-stream.{name}" for name in ("stream", "topic", "partition", "offset", "timestamp", "error")
)


class DeadLetters:
    """A Kafka as one command needs it.

    :param conn_id: id of the Airflow connection.
    :param extra: its extra, with librdkafka's names. Its user needs READ on the streams' topics and on the dead-letter
        topic, and WRITE on that.
    """

    def __init__(self, conn_id: str, extra: Mapping[str, Any]) -> None:
        self._conn_id = conn_id
        self._settings = client_settings(conn_id, extra)

    def read(self, wanted: Iterable[KafkaRecord]) -> list[Any]:
        """Return kafka-python's records of these, in their order.

        :raises SpecError: there is no record at such an offset.
        :raises StreamError: Kafka does not answer, or refuses.
        """
        from kafka import TopicPartition

        found = []
        with self._consumer() as consumer:
            for each in wanted:
                place = TopicPartition(each.topic, each.partition)
                record = next(_from(consumer, place, each.offset, each.offset + 1), None)
                if record is None:
                    raise SpecError(
                        f"Kafka has no record {each.name}.",
                        next_step="It was deleted or compacted away, or the name is wrong: nothing was done.",
                    )
                found.append(record)
        return found

    def write(self, topic: str, records: Sequence[Any], stream: str, error: str) -> int:
        """Copy records to a dead-letter topic, but those that are there; return how many were written.

        :raises SpecError: there is no such topic.
        :raises StreamError: Kafka does not answer, or refuses; some may be there.
        """
        known = self._letters(topic)
        left = [each for each in records if (each.topic, each.partition, each.offset, each.timestamp) not in known]
        with self._asking("to write dead letters"):
            from kafka import KafkaProducer

            settings = {"acks": "all", "enable_idempotence": True, "max_request_size": LARGEST}
            producer = KafkaProducer(**settings, **self._known(KafkaProducer))
            try:
                sent = [
                    producer.send(topic, key=r.key, value=r.value, headers=_headers(r, stream, error)) for r in left
                ]
                for each in sent:
                    each.get(ANSWER_SECONDS)
            finally:
                producer.close()
        return len(left)

    def _letters(self, topic: str) -> set[tuple[str, int, int, int]]:
        """The records that are in the dead-letter topic already."""
        from kafka import TopicPartition

        found = set()
        with self._consumer() as consumer:
            places = [TopicPartition(topic, each) for each in consumer.partitions_for_topic(topic) or ()]
            if not places:
                raise SpecError(f"There is no topic {topic}.", next_step="Make the dead-letter topic first.")
            begins, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
            for place in places:
                for letter in _from(consumer, place, max(begins[place], ends[place] - LOOKED_BACK), ends[place]):
                    said = dict(letter.headers)
                    with suppress(KeyError, ValueError, TypeError, AttributeError):  # a stranger's
                        numbers = (int(said[name]) for name in (PARTITION, OFFSET, TIMESTAMP))
                        found.add((said[TOPIC].decode(), *numbers))
        return found

    @contextmanager
    def _consumer(self) -> Iterator[KafkaConsumer]:
        with self._asking("for records"):
            from kafka import KafkaConsumer

            consumer = KafkaConsumer(
                enable_auto_commit=False, auto_offset_reset="earliest", **self._known(KafkaConsumer)
            )
            try:
                yield consumer
            finally:
                consumer.close()

    @contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        from kafka.errors import KafkaError

        try:
            yield
        except (KafkaError, OSError) as error:
            raise stream_error(self._conn_id, self._settings["bootstrap_servers"], what, error) from error

    def _known(self, client: Any) -> dict[str, Any]:
        known = {name: value for name, value in self._settings.items() if name in client.DEFAULT_CONFIG}
        return {**known, "allow_auto_create_topics": False}


def _from(consumer: KafkaConsumer, place: Any, begin: int, end: int) -> Iterator[Any]:
    """Yield the records from an offset up to another, as far as they are there."""
    consumer.assign([place])
    consumer.seek(place, begin)
    while consumer.position(place) < end:
        polled = consumer.poll(timeout_ms=int(ANSWER_SECONDS * 1000)).get(place, [])
        if not polled and consumer.position(place) < end:
            return
        for record in polled:
            if record.offset >= end:
                return
            yield record


def _headers(record: Any, stream: str, error: str) -> list[tuple[str, bytes]]:
    ours = {
        STREAM: stream,
        TOPIC: record.topic,
        PARTITION: record.partition,
        OFFSET: record.offset,
        TIMESTAMP: record.timestamp,
        ERROR: error,
    }
    return [*record.headers, *((name, str(value).encode()) for name, value in ours.items())]
