"""The control root in Kafka and its topics, as Airflow reaches them through this package's own client."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import UUID
from weakref import WeakValueDictionary

from airflow_stream_provider.control.topic import READ_BYTES, Fetched, Message, read_all, root_name, topic_name
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.kafka import control_topic_setup as setup
from airflow_stream_provider.kafka.answers import (
    OFFSET_OUT_OF_RANGE,
    THROTTLED,
    TOPIC_DENIED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    Answers,
    Problem,
)
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.connect import NO_QUOTA, BrokerUnreachable, KafkaDenied, KafkaThrottled
from airflow_stream_provider.kafka.control_topic_rules import NotWritable, without_id
from airflow_stream_provider.kafka.settings import with_ports
from airflow_stream_provider.lifecycle.errors import (
    ControlLogDamaged,
    ControlLogReplaced,
    ControlUnavailable,
    StreamError,
)
from airflow_stream_provider.lifecycle.ids import NOTE, STREAM, check_id

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

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
    """

    def __init__(self, client: Callable[[], KafkaClient], conn_id: str, name: str) -> None:
        from kafka import TopicPartition

        self.name = f"the topic {name} of the Kafka connection {conn_id!r}"
        self._client = client
        self._partition = TopicPartition(name, 0)
        # The id of the topic that was found first: one that is made anew under its name is another one.
        self._id: UUID | None = None

    def topic_id(self) -> str:
        """Return the topic's id; see `Topic.topic_id`."""
        return self._uuid().hex

    def write(self, key: bytes, value: bytes | None, headers: Mapping[str, bytes]) -> int:
        """Write one message; see `Topic.write`. Named by its name, it may go to a topic made anew: `read` notices."""
        written = self._asked(lambda client: client.write(self._partition, key, value, headers, WRITE_SECONDS))
        return self._answer(written, self._partition)

    def read(self, offset: int, size: int = READ_BYTES) -> Fetched:
        """Return the messages from an offset on; see `Topic.read`."""
        ids = {self._partition.topic: self._uuid()}
        fetched = self._asked(lambda client: client.read({self._partition: offset}, ids, partition_bytes=size))
        if self._partition in fetched.problems and fetched.problems[self._partition].code == OFFSET_OUT_OF_RANGE:
            raise self._out_of_reach(offset)
        return self._answer(fetched, self._partition)

    def check_same(self) -> None:
        """See `Topic.check_same`. Nothing to do: Kafka was asked for this topic by its id."""

    def _uuid(self) -> UUID:
        if self._id is None:
            name = self._partition.topic
            topic_id: UUID | None = self._answer(self._asked(lambda client: client.topics([name])), name)["topic_id"]
            if topic_id is None:
                raise without_id(self.name)
            self._id = topic_id
        return self._id

    def _asked(self, call: Callable[[KafkaClient], T]) -> T:
        try:
            return call(self._client())
        except ControlUnavailable:
            raise
        except StreamError as error:
            denied, throttled = isinstance(error, KafkaDenied), isinstance(error, KafkaThrottled)
            next_step = RIGHTS if denied else error.next_step if throttled else ""
            raise self._unavailable(error.message, next_step) from error

    def _answer(self, answers: Answers[K, V], key: K) -> V:
        if key not in answers:
            raise self._problem(answers.problems[key])
        return answers[key]

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
            "docs/trouble/damaged_log.md.",
            topic=self._partition.topic,
        )

    def _problem(self, problem: Problem) -> StreamError:
        if problem.code == UNKNOWN_TOPIC_ID:
            return ControlLogReplaced(
                f"{self.name} is not the one that was read before: it was deleted, and perhaps made anew.",
                next_step="Make sure that no driver of the stream from before runs on: docs/trouble/damaged_log.md.",
                topic=self._partition.topic,
            )
        if problem.code == UNKNOWN_TOPIC_OR_PARTITION:
            return ControlUnavailable(
                f"{self.name} does not exist: it was deleted, or the broker that was asked does not know of it yet.",
                next_step="If it stays so, the control log is lost: see docs/trouble/damaged_log.md.",
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


MARKER, SEEN = "root", "seen/"
# Seconds without an answer after which a client is replaced by one that begins with the bootstrap servers.
REOPEN_SECONDS = 60.0
_TEXT = b"The control root of airflow-stream-provider."


class TopicRoot:
    """A control root in Kafka; implements `ControlRoot`. Thread-safe.

    The log of a stream is in the topic ``PREFIX.STREAM``; ``PREFIX._root`` says that the root was made, which streams
    were seen, and which checkpoints are whose (`control.owners`).

    How a topic is set up is asked for when its stream is opened first, and of all streams that were seen in `check`.

    :param url: control URL.
    :param conn_id: the Airflow connection of type `kafka`.
    :param extra: of that connection.
    :param prefix: of the topics.
    """

    def __init__(self, url: str, conn_id: str, extra: Mapping[str, Any], prefix: str) -> None:
        self.url = url
        self._conn_id = conn_id
        self._extra = extra
        self._prefix = prefix
        self._root_name = root_name(prefix)
        self._lock = threading.RLock()
        self._opened: KafkaClient | None = None
        # Shared by those who use them now, in a triggerer for days: later users read what is there then.
        self._stores: WeakValueDictionary[str, TopicStore] = WeakValueDictionary()
        # The topics that were found to be as they must be.
        self._sound: frozenset[str] = frozenset()
        self._root = KafkaTopic(self._client, conn_id, self._root_name)
        self._read_to = 0
        self._entries: dict[str, bytes] = {}

    def make(self) -> bool:
        """Make the topic of the root; see `ControlRoot.make`.

        :raises SpecError: it may not be made, or there is a topic of this name that is not as it must be.
        """
        with self._reached():
            setup.create(self._client(), self._root_name)
            if MARKER in self._read():
                return False
            self._write(MARKER, _TEXT)
            return True

    def check(self) -> None:
        """See `ControlRoot.check`.

        :raises SpecError: its own topic is not as it must be.
        """
        with self._reached():
            client = self._client()
            if not setup.exists(client, self._root_name) or MARKER not in self._read():
                raise ControlUnavailable(
                    f"{self.url} is not a control root: there is no topic {self._root_name} with its marker.",
                    next_step="Correct `control` in the YAML or the Airflow connection. Only for a new control root, "
                    f"once: airflow streams init {self.url}",
                    topic=self._root_name,
                )
            names = [self._root_name, *(self._topic(name) for name in self.noted() if STREAM.fullmatch(name))]
            wrong = setup.problems(client, names)
            self._sound = frozenset(names) - wrong.keys()
            self._raise(wrong.get(self._root_name))

    def where(self, stream: str) -> str:
        """Return ``the topic PREFIX.STREAM of the Kafka connection 'CONNECTION'``; see `ControlRoot.where`."""
        return f"the topic {self._topic(stream)} of the Kafka connection {self._conn_id!r}"

    def driver_arguments(self) -> tuple[str, ...]:
        """Return the brokers' addresses; see `ControlRoot.driver_arguments`."""
        return ("--brokers", ",".join(with_ports(str(self._extra.get("bootstrap.servers", "")))))

    def exists(self, stream: str) -> bool:
        """Whether the stream has a topic here; see `ControlRoot.exists`."""
        with self._reached():
            found = setup.exists(self._client(), self._topic(stream))
            if not found:
                self.check()
            return found

    def stream_folder(self, stream: str) -> None:
        """Return None: there is no folder; see `ControlRoot.stream_folder`."""

    def store(self, stream: str, *, create: bool = False) -> TopicStore:
        """Return the store of a stream; see `ControlRoot.store`.

        :param create: make the topic of a new stream.
        :raises SpecError: the topic is not as it must be, or its user lacks a right.
        :raises ControlLogDamaged: its beginning was deleted.
        """
        name = self._topic(stream)
        with self._reached():
            if create:
                self.check()
                setup.create(self._client(), name)
            elif name not in self._sound:
                self._raise(setup.problems(self._client(), [name]).get(name))
        with self._lock:
            self._sound |= {name}
            store = self._stores.get(stream)
            if store is None:
                store = self._stores[stream] = TopicStore(KafkaTopic(self._client, self._conn_id, name), stream)
            return store

    def log_id(self, stream: str) -> str:
        """Return the id that Kafka has given the stream's topic; see `ControlRoot.log_id`."""
        with self._reached():
            return KafkaTopic(self._client, self._conn_id, self._topic(stream)).topic_id()

    def samples(self, stream: str) -> TopicStore:
        """Return the samples of a stream, in its topic."""
        return self.store(stream)

    def noted(self, *names: str) -> dict[str, bytes]:
        """Return the notes; see `ControlRoot.noted`."""
        notes = {key.removeprefix(SEEN): value for key, value in self._read().items() if key.startswith(SEEN)}
        # Other messages are no notes.
        there = {name: value for name, value in notes.items() if name.startswith(".") or STREAM.fullmatch(name)}
        return {name: there[name] for name in names or there if name in there}

    def note(self, name: str, data: bytes) -> None:
        """Replace a note; see `ControlRoot.note`."""
        self._write(SEEN + check_id(name, NOTE), data)

    def forget(self, name: str) -> None:
        """Remove a note; see `ControlRoot.forget`. Compaction removes what the topic has of it."""
        self._write(SEEN + check_id(name, NOTE), None)

    def close(self) -> None:
        """Close the client; see `ControlRoot.close`."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def _client(self) -> KafkaClient:
        """Return the client, which all streams share; a new one, when the brokers refused the one before, or are gone.

        :raises StreamError: Kafka does not answer, or refuses the connection.
        """
        with self._lock:
            self._reopen()
            if self._opened is not None and self._opened.refused:
                self.close()
            if self._opened is None:
                self._opened = KafkaClient(self._conn_id, self._extra)
            return self._opened

    def _reopen(self) -> None:
        """Replace a client that has reached no broker for a while, if the bootstrap servers answer."""
        old = self._opened
        now = time.monotonic()
        if old is None or old.unreachable_since is None or now - old.unreachable_since < REOPEN_SECONDS:
            return
        old.unreachable_since = now  # the next try is as long after this one
        try:
            self._opened = KafkaClient(self._conn_id, self._extra)
        except BrokerUnreachable:
            return
        old.close()

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Raise ControlUnavailable where Kafka does not answer, or refuses the connection."""
        try:
            yield
        except BrokerUnreachable as error:
            raise ControlUnavailable(error.message, next_step=error.next_step) from error
        except KafkaDenied as error:
            raise ControlUnavailable(error.message, next_step=RIGHTS) from error

    def _raise(self, error: StreamError | None) -> None:
        # One that cannot be written now can still be read; a writer will get the error.
        if error is not None and not isinstance(error, NotWritable):
            raise error

    def _topic(self, stream: str) -> str:
        return topic_name(self._prefix, stream)

    def _read(self) -> dict[str, bytes]:
        """Return what is in the topic of the root, by key."""
        with self._lock:
            self._read_to = read_all(self._root, self._read_to, self._take)
            return dict(self._entries)

    def _take(self, messages: Sequence[Message]) -> None:
        for each in messages:
            key = (each.key or b"").decode("ascii", "replace")
            if each.value is None:  # a person has removed it
                self._entries.pop(key, None)
            elif key == MARKER or key.startswith(SEEN):
                # The claims, of which there may be many, are `TopicOwners`'.
                self._entries[key] = each.value

    def _write(self, key: str, value: bytes | None) -> None:
        with self._lock:
            self._root.write(key.encode(), value, {})
