"""Kafka: how it is reached, and the rows of a batch as records of a topic."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_stream_provider.sinks.given import address_of
from airflow_stream_provider.sinks.kafka_ledger import KafkaLedger
from airflow_stream_provider.sinks.kafka_topic import Record, check_record_columns
from airflow_stream_provider.sinks.ledger import SinkError, SinkRefused, Target, Writer

# Larger than kafka-python's own, which are for single records and not for batches.
_IN_BULK = {"batch_size": 1 << 17, "linger_ms": 20}


def kafka(name: str, *, servers: str = "") -> Kafka:
    """Name a Kafka cluster whose brokers are of version 3.6 or later.

    :param name: where its address and password come from, the first of: the environment variable STREAM_SINK_NAME; the
        file that STREAM_SINK_NAME_FILE names. Either has the bootstrap servers, or kafka-python's settings in JSON.
    :param servers: bootstrap servers instead, as host:port with commas between, where no password is needed.
    """
    return Kafka(name, _settings(name, servers or address_of(name)))


def _settings(name: str, text: str) -> dict[str, Any]:
    if not text:
        raise SinkError(
            f"The Kafka cluster {name} has no address.",
            next_step="Set STREAM_SINK_… to its bootstrap servers, or STREAM_SINK_…_FILE to a file that has them.",
        )
    if not text.startswith("{"):
        return {"bootstrap_servers": text}
    try:
        return {key: _Hidden(value) if "password" in key else value for key, value in json.loads(text).items()}
    except ValueError:
        raise SinkError(
            f"The settings of the Kafka cluster {name} are no JSON object.",
            next_step='Write them as {"bootstrap_servers": "host:port", ...}, with the names that kafka-python has.',
        ) from None


class _Hidden(str):
    """A password whose repr hides it: kafka-python writes its settings into its debug log."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


class Kafka:
    """One Kafka cluster; see `kafka`. Its text never shows the address or a password."""

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        self.name = name
        self._settings = settings

    def __repr__(self) -> str:
        return f"kafka({self.name!r})"

    def place(self, target: Target) -> str:
        """Return where the ledgers of a target are kept: all of one cluster are in one topic."""
        return f"{self._settings.get('bootstrap_servers')}"

    def producer(self, transactional_id: str, **settings: Any) -> Any:
        """Return a producer whose every record is part of a transaction.

        :raises SinkError: the cluster cannot be reached, or refuses.
        """
        return self._client("KafkaProducer", _IN_BULK, transactional_id=transactional_id, **settings)

    def consumer(self, **settings: Any) -> Any:
        """Return a consumer of what is committed.

        :raises SinkError: the cluster cannot be reached, or refuses.
        """
        own = {"isolation_level": "read_committed", "enable_auto_commit": False, "allow_auto_create_topics": False}
        return self._client("KafkaConsumer", {}, **own, **settings)

    def admin(self) -> Any:
        """Return a client that asks for topics and groups.

        :raises SinkError: the cluster cannot be reached, or refuses.
        """
        return self._client("KafkaAdminClient", {})

    def _client(self, kind: str, defaults: Mapping[str, Any], **own: Any) -> Any:
        """Return a client with the settings that clients of its kind have; `own` ones go before those of the user."""
        try:
            import kafka
            from kafka.errors import KafkaError
        except ImportError:
            raise SinkError(
                "The module kafka is missing here.", next_step="Install kafka-python[crc32c]>=3.0.12 for the driver."
            ) from None
        kinds = [getattr(kafka, each) for each in ("KafkaProducer", "KafkaConsumer", "KafkaAdminClient")]
        unknown = set(self._settings).difference(*(each.DEFAULT_CONFIG for each in kinds))
        if unknown:
            raise SinkError(
                f"The Kafka cluster {self.name} has settings that kafka-python does not know: "
                f"{', '.join(sorted(unknown))}.",
                next_step="Correct or remove them.",
            )
        made = getattr(kafka, kind)
        given = {key: value for key, value in self._settings.items() if key in made.DEFAULT_CONFIG}
        try:
            return made(**{**defaults, **given, **own})
        except (KafkaError, OSError, ValueError) as error:
            # The error's text may name the user and the host.
            raise SinkError(
                f"The Kafka cluster {self.name} cannot be reached, or refuses the connection ({type(error).__name__}).",
                next_step="See that it runs, and that STREAM_SINK_… names it rightly. The query tries again.",
            ) from None

    def ledger(self, writer: Writer, target: Target) -> KafkaLedger:
        """Return the ledger of one query, for one writer.

        :raises SinkRefused: the sink has arguments that no topic has.
        """
        for name, given, instead in (
            ("key", target.key, "The column `key` of the batch is the record's key."),
            ("delete", target.delete, "A row whose column `value` is null removes its key from a compacted topic."),
            ("create", target.create, "Create the topic, with the partitions and replicas that it needs."),
        ):
            if given:
                raise SinkRefused(f"A topic has no argument {name!r}.", next_step=f"Leave it out. {instead}")
        return KafkaLedger(self, writer, target.table)

    def records(self, frame: DataFrame) -> list[Record]:
        """Collect the rows of a batch.

        :raises BadRows: they have other columns than a record.
        """
        check_record_columns(frame.schema)
        columns = [F.col(name) if name in frame.columns else F.lit(None) for name in Record._fields]
        columns[:2] = [column.cast("binary") for column in columns[:2]]
        return [Record(*row) for row in frame.select(*columns).collect()]
