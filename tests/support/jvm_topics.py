"""Control topics through the Kafka client of a driver's JVM, for a test in another process: `Jvm` starts it.

    python -m tests.support.jvm_topics

Its input has requests, and its output their answers, both pickled. Those of one topic are done one after the other,
those of several beside each other.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from pyspark import SparkContext

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.control.topic import READ_BYTES, Fetched
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.lifecycle import errors
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, StreamError
from airflow_stream_provider.runtime.jvm_topic import JvmTopic
from airflow_stream_provider.runtime.places import client_settings
from tests.support.jvm_drivers import ROOT, submit_arguments
from tests.support.race import contend

# Seconds in which a topic is opened: a cold JVM takes longer for its first request than that may take.
OPEN_SECONDS = 60.0
# Seconds in which anything else is answered.
ANSWER_SECONDS = 300.0


class Jvm:
    """A process with a JVM as a driver has one.

    :param properties: a file of settings of Kafka's Java clients. Default: none, as without TLS and users.
    """

    def __init__(self, properties: str = "") -> None:
        given = {"STREAM_CONTROL_PROPERTIES": properties} if properties else {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.jvm_topics"],
            cwd=ROOT,
            env={**os.environ, "PYSPARK_SUBMIT_ARGS": submit_arguments(), **given},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._asked: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._take, daemon=True).start()

    def open(self, servers: str, topic: str) -> FarTopic:
        """Open a topic."""
        return FarTopic(self, *self.ask("open", servers, topic).result(ANSWER_SECONDS))

    def ask(self, what: str, *arguments: Any) -> Future[Any]:
        """Ask for something; see `_Topics`."""
        with self._lock:
            number = len(self._asked)
            found = self._asked[number] = Future()
            assert self._process.stdin is not None
            pickle.dump((number, what, arguments), self._process.stdin)
            self._process.stdin.flush()
        return found

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()

    def _take(self) -> None:
        assert self._process.stdout is not None
        try:
            while True:
                number, error, answer = pickle.load(self._process.stdout)
                if error is None:
                    self._asked[number].set_result(answer)
                else:
                    kind, message, next_step = error
                    self._asked[number].set_exception(getattr(errors, kind)(message, next_step=next_step))
        except (EOFError, OSError, ValueError):
            for each in self._asked.values():
                if not each.done():
                    each.set_exception(AssertionError("the process with the JVM has ended"))


class FarTopic:
    """A topic that a JVM has opened; implements `Topic`.

    :param number: of the topic there.
    """

    def __init__(self, jvm: Jvm, number: int, name: str) -> None:
        self.name = name
        self.number = number
        self._jvm = jvm

    def topic_id(self) -> str:
        return str(self._do("topic_id"))

    def write(self, key: bytes, value: bytes | None, headers: Mapping[str, bytes]) -> int:
        return int(self._do("write", key, value, dict(headers)))

    def read(self, offset: int, size: int = READ_BYTES) -> Fetched:
        found: Fetched = self._do("read", offset, size)
        return found

    def check_same(self) -> None:
        self._do("check_same")

    def close(self) -> None:
        """End its clients, which would go on looking for their broker."""
        self._jvm.ask("close", self.number).result(ANSWER_SECONDS)

    def _do(self, what: str, *arguments: Any) -> Any:
        return self._jvm.ask("do", self.number, what, *arguments).result(ANSWER_SECONDS)


class _Topics:
    """What a request may ask for."""

    def __init__(self) -> None:
        self._topics: list[tuple[JvmTopic, ThreadPoolExecutor]] = []
        self._opens = ThreadPoolExecutor(1)

    def open(self, servers: str, name: str) -> Future[tuple[int, str]]:
        """Open a topic; return its number and its name for people."""

        def opened() -> tuple[int, str]:
            self._topics.append((_opened(servers, name), ThreadPoolExecutor(1)))
            return len(self._topics) - 1, self._topics[-1][0].name

        return self._opens.submit(opened)

    def do(self, number: int, what: str, *arguments: Any) -> Future[Any]:
        """Call a method of a topic."""
        topic, thread = self._topics[number]
        return thread.submit(lambda: getattr(topic, what)(*arguments))

    def close(self, number: int) -> Future[None]:
        """End the clients of a topic."""
        topic, thread = self._topics[number]
        now = topic._jvm.java.time.Duration.ZERO

        def closed() -> None:
            topic._producer.close(now)
            topic._consumer.close(now)

        return thread.submit(closed)

    def contend(self, number: int, writer: str, wins: int, total: int) -> Future[dict[str, Any]]:
        """Contend for numbers in the log of a topic, as `tests.support.race`."""
        topic, thread = self._topics[number]
        return thread.submit(contend, ControlLog(TopicStore(topic, "orders"), "orders"), writer, wins, total)


def _opened(servers: str, name: str) -> JvmTopic:
    until = time.monotonic() + OPEN_SECONDS
    while True:
        try:
            return JvmTopic(name, client_settings(servers))
        except ControlUnavailable as error:
            if "TimeoutException" not in str(error) or time.monotonic() > until:
                raise


def main() -> None:
    """Carry out what is asked for."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the JVM prints is no answer
    SparkContext._ensure_initialized()
    topics, lock = _Topics(), threading.Lock()

    def answer(number: int) -> Callable[[Future[Any]], None]:
        def send(done: Future[Any]) -> None:
            error = done.exception()
            if error is not None and not isinstance(error, StreamError):
                os._exit(1)
            kind = type(error).__name__ if hasattr(errors, type(error).__name__) else ControlUnavailable.__name__
            told = None if error is None else (kind, error.message, error.next_step)
            with lock:
                pickle.dump((number, told, None if error else done.result()), answers)
                answers.flush()

        return send

    while True:
        try:
            number, what, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        getattr(topics, what)(*arguments).add_done_callback(answer(number))


if __name__ == "__main__":
    main()
