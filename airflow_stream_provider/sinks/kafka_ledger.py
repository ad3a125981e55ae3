"""The ledger of one query in a topic of Kafka: claim it, and write a batch in one transaction.

The ledger's records and those of the batch are in one transaction of one transactional id, which is made of the names
of stream and query. A driver that claims it fences the one before: Kafka's brokers refuse whatever that one sends.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from pyspark.sql import DataFrame

from airflow_stream_provider.sinks.kafka_topic import (
    LEDGER,
    LOOKS,
    MEMBER,
    SIGN_SECONDS,
    Presence,
    Record,
    Topic,
    check_ledger,
    members_of,
    partitions_of,
    topic_of,
)
from airflow_stream_provider.sinks.ledger import (
    AnotherWriter,
    BadRows,
    Batch,
    Entry,
    SinkError,
    SinkRefused,
    Writer,
    fenced,
)

# So long a plain job waits for one before it to end, and each step of a transaction may take.
PATIENCE_SECONDS = 30.0
STEP_SECONDS = 120.0
_ENTRY = ("stream", "query", "epoch", "writer", "holder", "query_id", "batch_id", "offsets")

Row = dict[str, Any]


class KafkaLedger:
    """One writer of one query, with its clients: `claim` comes before `write`.

    :param cluster: a `Kafka`.
    :param writer: who writes.
    :param topic: for the rows.
    """

    def __init__(self, cluster: Any, writer: Writer, topic: str) -> None:
        self._cluster = cluster
        self._writer = writer
        self._name = topic
        self._id = str(uuid.uuid4())
        self._clients = contextlib.ExitStack()
        self._producer: Any = None
        self._presence: Presence | None = None
        # The ledger's row. Where another driver has changed it, the next commit of this producer fails.
        self._row: Row = {}
        self._topic: Topic | None = None
        self.epoch = 0

    @property
    def id(self) -> str:
        """The id of this claim."""
        return self._id

    def close(self) -> None:
        """End the session; the claim stays."""
        atexit.unregister(self.close)
        self._drop()
        presence, self._presence = self._presence, None
        if presence is not None:
            presence.end()

    def known(self) -> Entry | None:
        """Return the entry, without a claim; None: there is none."""
        with self._working():
            admin = self._admin()
            found = self._read(admin) if partitions_of(admin, LEDGER) else None
        return None if found is None else _entry(found)

    def entry(self) -> Entry:
        """Return the entry as it is now.

        :raises SinkRefused: another driver has claimed it.
        """
        if self._producer is None:
            with self._working():
                self._row = self._come_back()
        return _entry(self._row)

    def write(self, frame: DataFrame, batch: Batch) -> int:
        """Write the records of a batch and its offsets in one transaction; return the number of records.

        :raises SinkRefused: rows do not fit the topic, or another driver has claimed the ledger.
        :raises SinkError: Kafka failed; nothing was written.
        """
        records: list[Record] = self._cluster.records(frame)
        if self._topic is not None:
            self._topic.check(records)
        row = {**self._row, "query_id": batch.query_id, "batch_id": batch.batch_id, "rows": len(records)}
        row |= {"begins": list(batch.begins), "offsets": list(batch.ends)}
        for last in (False, True):
            try:
                with self._working():
                    self._transact(records, row)
            except SinkRefused:
                raise
            except SinkError:
                # Whether it was committed is not known. A new producer ends the transaction, and the row says it.
                self.entry()
                if self._row != row:
                    if last:
                        raise
                    continue
            self._row = row
            break
        return len(records)

    def rehearse(self, frame: DataFrame) -> None:
        """Check topic and rows without writing.

        :raises SinkRefused: they do not fit.
        """
        with self._working():
            topic = topic_of(self._admin(), self._name)
        topic.check(self._cluster.records(frame))

    # -- claiming ---------------------------------------------------------------------------------------------------

    def claim(self) -> None:
        """Become the one that may write: the ledger refuses the driver that has claimed it before.

        :raises SinkRefused: another driver writes, or one that held the stream later has claimed it.
        """
        writer = self._writer
        atexit.register(self.close)
        try:
            with self._working():
                admin = self._open()
                known = self._read(admin, settled=False)
                self._check_hold(known)  # a driver that comes late does not fence the one that may write
                group = self._join()
                waits = not writer.control and not writer.take_over
                if known is not None and waits:
                    self._wait_for_another(admin, known)
                found = self._fence(admin)
                self._check_hold(found)
                if waits and found is not None and (known is None or known["writer"] != found["writer"]):
                    raise SinkError(
                        f"{found['holder']} has claimed the ledger of {writer.name} while this job started.",
                        next_step="Nothing: the query tries again, and is told whether that job lives.",
                    )
                found = found or _row(Entry(writer.stream, writer.query, 0, "", ""))
                row = {**found, "epoch": found["epoch"] + 1, "writer": self._id, "holder": writer.holder}
                row |= {"control": writer.control, "hold": writer.hold, "group": group}
                self._transact([], row)
        except BaseException:
            self.close()
            raise
        self._row, self.epoch = row, int(row["epoch"])

    def _check_hold(self, found: Row | None) -> None:
        """Refuse a driver that held before the one that has claimed the ledger."""
        if found is not None and self._writer.held_before(found["control"], found["hold"]):
            raise fenced(_entry(found))

    def _come_back(self) -> Row:
        """Make a new producer for the same claim, unless another driver has claimed the ledger; return the row."""
        admin = self._open()
        found = self._read(admin, settled=False)
        if found is not None and found["epoch"] > self.epoch:
            raise fenced(_entry(found))
        found = self._fence(admin)
        if found is None:
            raise SinkRefused(
                f"The ledger of {self._writer.name} is gone from the Kafka cluster {self._cluster.name}.",
                next_step=f"Restore the topic {LEDGER}. Without it nobody knows what the topic {self._name} holds.",
            )
        if found["writer"] != self._id:
            raise fenced(_entry(found))
        return found

    def _fence(self, admin: Any) -> Row | None:
        """End what producers before have begun, and return the row: who changes it from now on fences this one."""
        self._producer.init_transactions()
        return self._read(admin)

    def _join(self) -> str:
        """Be the member of a group of this claim's own, so that others see that this driver lives; return the group."""
        group = f"{LEDGER}-{uuid.uuid4()}"
        presence = self._presence = Presence(partial(self._cluster.consumer, group_id=group, **MEMBER))
        if not presence.joins():
            raise presence.error or SinkError(
                f"The Kafka cluster {self._cluster.name} takes no member into the group {group}.",
                next_step="See the log of its brokers. The query tries again.",
            )
        return group

    def _wait_for_another(self, admin: Any, found: Row) -> None:
        """Wait until the driver that has claimed the ledger has ended.

        :raises AnotherWriter: it lives.
        :raises SinkError: the brokers do not say.
        """
        deadline, empty = time.monotonic() + PATIENCE_SECONDS, 0
        while empty < LOOKS:
            members, error = members_of(admin, found["group"])
            empty = 0 if members or error else empty + 1
            if time.monotonic() > deadline and members:
                raise AnotherWriter(
                    f"{found['holder']} on {members[0]} writes {self._writer.name}.",
                    next_step="Stop it first; this one then goes on where it has ended. If it hangs, start this one "
                    "with take_over=True: Kafka then refuses what that one sends.",
                    holder=found["holder"],
                )
            if time.monotonic() > deadline and error:
                raise SinkError(
                    f"The Kafka cluster {self._cluster.name} does not say whether {found['holder']} lives ({error}).",
                    next_step="See the log of its brokers, and that this user may describe groups whose names begin "
                    f"with {LEDGER}. The query tries again.",
                )
            time.sleep(SIGN_SECONDS)

    def _open(self) -> Any:
        """Make a producer; return an admin client."""
        # First: it says that the cluster is away without leaving threads behind.
        transactional_id = f"{LEDGER}/{self._writer.name}"
        self._producer = self._cluster.producer(transactional_id)
        admin = self._admin()
        self._topic = topic_of(admin, self._name)
        check_ledger(admin)
        if self._producer.config["batch_size"] > self._topic.largest:
            # Brokers refuse a larger batch of records, and kafka-python cannot split one in a transaction.
            self._drop()
            self._producer = self._cluster.producer(transactional_id, batch_size=self._topic.largest)
        return admin

    def _admin(self) -> Any:
        """Return an admin client, which is closed when `_working` ends."""
        return self._clients.enter_context(contextlib.closing(self._cluster.admin()))

    # -- the transaction ---------------------------------------------------------------------------------------------

    def _transact(self, records: Sequence[Record], row: Row) -> None:
        """Write records and the ledger's row in one transaction."""
        from kafka.errors import KafkaError

        producer, failed = self._producer, list[Exception]()

        def send(*record: Any) -> None:
            if not failed:
                producer.send(*record).add_errback(failed.append)

        def sent() -> None:
            # Not left to the commit: kafka-python may call a transaction committed of which a record has failed in it.
            producer.flush(STEP_SECONDS)
            if failed:
                raise failed[0]

        producer.begin_transaction()
        try:
            for key, value, headers, partition in records:
                named = [(name, bytes(text)) for name, text in headers or ()]
                send(self._name, _bytes(value), _bytes(key), named, partition)
        except KafkaError:
            if not failed:  # else it says only that a record before failed
                raise
        sent()
        # Last: a ledger with an open transaction keeps other queries from their claims.
        send(LEDGER, json.dumps(row).encode(), self._writer.name.encode(), [], 0)
        sent()
        _commit(producer)

    def _read(self, admin: Any, settled: bool = True) -> Row | None:
        """Return the last committed row; None: there is none.

        :param settled: whether transactions are waited for that were open in the ledger at the beginning.
        """
        from kafka import TopicPartition
        from kafka.admin import OffsetSpec

        place, found = TopicPartition(LEDGER, 0), b""
        with contextlib.closing(self._cluster.consumer()) as consumer:
            consumer.assign([place])
            consumer.seek_to_beginning(place)
            end = consumer.end_offsets([place])[place]
            if settled:
                end = admin.list_partition_offsets({place: OffsetSpec.LATEST})[place].offset
            deadline = time.monotonic() + STEP_SECONDS
            while (consumer.position(place) or 0) < end:  # None: the broker has not said it yet
                for record in consumer.poll(timeout_ms=500).get(place, ()):
                    found = record.value if record.key == self._writer.name.encode() else found
                if time.monotonic() > deadline:
                    raise SinkError(
                        f"The topic {LEDGER} of the Kafka cluster {self._cluster.name} could be read until offset "
                        f"{consumer.position(place)} only, of {end}.",
                        next_step="See whether a transaction is open there: kafka-transactions.sh find-hanging. The "
                        "query tries again.",
                    )
        return json.loads(found) if found else None

    def _drop(self) -> None:
        """Give up the producer. A commit that it may still send is refused once there is another one."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(Exception):
                producer.close(timeout=1)

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        """Say what Kafka refuses without its own words; after any error the producer is made anew."""
        from kafka.errors import InvalidRecordError, KafkaError, MessageSizeTooLargeError, RecordListTooLargeError

        try:
            with self._clients:
                yield
        except (InvalidRecordError, MessageSizeTooLargeError, RecordListTooLargeError) as error:
            self._drop()
            raise BadRows(
                f"The Kafka cluster {self._cluster.name} does not take a row for the topic {self._name} "
                f"({type(error).__name__}).",
                next_step="Correct or leave out such rows in the script, or change the topic.",
                table=self._name,
            ) from None
        except KafkaError as error:
            self._drop()
            raise SinkError(
                f"The Kafka cluster {self._cluster.name} failed ({type(error).__name__}).",
                next_step="See the log of its brokers, and the rights of this user. Where a batch takes longer than a "
                "minute, set a larger transaction_timeout_ms beside the bootstrap_servers. The query tries again.",
            ) from None
        except BaseException:
            self._drop()
            raise


def _commit(producer: Any) -> None:
    """Commit in a thread of its own, because kafka-python waits for the brokers for ever."""
    from kafka.errors import KafkaTimeoutError

    said: list[Exception | None] = []

    def commit() -> None:
        try:
            producer.commit_transaction()
        except Exception as error:  # noqa: BLE001 - raised below
            said.append(error)
        else:
            said.append(None)

    thread = threading.Thread(target=commit, daemon=True)
    thread.start()
    thread.join(STEP_SECONDS)
    error = said[0] if said else KafkaTimeoutError()
    if error is not None:
        raise error


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def _entry(row: Row) -> Entry:
    return Entry(**{name: row[name] for name in _ENTRY})


def _row(entry: Entry) -> Row:
    return {**{name: getattr(entry, name) for name in _ENTRY}, "control": "", "hold": 0, "group": ""}
