"""The control root in Kafka, as Airflow reaches it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

from airflow_stream_provider.control.topic import Message, read_all, root_name, topic_name
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.kafka import control_topic_setup as setup
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.connect import BrokerUnreachable, KafkaDenied
from airflow_stream_provider.kafka.control_topic import RIGHTS, KafkaTopic
from airflow_stream_provider.kafka.control_topic_rules import NotWritable
from airflow_stream_provider.kafka.settings import with_ports
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, StreamError
from airflow_stream_provider.lifecycle.ids import STREAM, check_stream_name

MARKER, SEEN = "root", "seen/"
# Seconds without an answer after which a client is replaced by one that begins with the bootstrap servers.
REOPEN_SECONDS = 60.0
_TEXT = b"The control root of airflow-stream-provider."


class TopicRoot:
    """A control root in Kafka; implements `ControlRoot`. Thread-safe.

    The log of a stream is in the topic ``PREFIX.STREAM``; ``PREFIX._root`` says that the root was made, which streams
    were seen, and which checkpoints are whose (`control.topic_owners`).

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
        self._entries: set[str] = set()

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
            names = [self._root_name, *map(self._topic, self.seen())]
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

    def seen(self) -> frozenset[str]:
        """Return the streams that were noted; see `ControlRoot.seen`."""
        names = (key.removeprefix(SEEN) for key in self._read() if key.startswith(SEEN))
        # Other messages there are no streams.
        return frozenset(name for name in names if STREAM.fullmatch(name))

    def note(self, stream: str) -> None:
        """Note that a stream has a topic here; see `ControlRoot.note`."""
        self._write(SEEN + check_stream_name(stream), b"-")

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

    def _read(self) -> frozenset[str]:
        """Return the keys in the topic of the root."""
        with self._lock:
            self._read_to = read_all(self._root, self._read_to, self._take)
            return frozenset(self._entries)

    def _take(self, messages: Sequence[Message]) -> None:
        for each in messages:
            key = (each.key or b"").decode("ascii", "replace")
            if each.value is None:  # a person has removed it
                self._entries.discard(key)
            elif key == MARKER or key.startswith(SEEN):
                # The claims, of which there may be many, are `TopicOwners`'.
                self._entries.add(key)

    def _write(self, key: str, value: bytes) -> None:
        with self._lock:
            self._root.write(key.encode(), value, {})
