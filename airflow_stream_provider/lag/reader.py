"""Measure the lag of many streams and consumer groups of one Kafka in one go."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.control.bounded import gather
from airflow_stream_provider.lag.committed_offsets import Committed, group_committed
from airflow_stream_provider.lag.limits import Moments
from airflow_stream_provider.lag.report import LagReport
from airflow_stream_provider.lag.targets import LagTarget, read_sources
from airflow_stream_provider.lifecycle.errors import StreamError

if TYPE_CHECKING:
    from airflow_stream_provider.control.store import ControlRoot
    from airflow_stream_provider.kafka.client import KafkaClient


Roots = Callable[[str], "ControlRoot"]
K = TypeVar("K", bound=Hashable)

# Seconds that reading all control logs and checkpoints of a look may take.
READ_SECONDS = 15.0


class LagReader:
    """Measures many targets with the requests of one; blocks, and must be used from one thread.

    The control logs stay open between two reads, so that each reads only the new records.

    :param client: of the one Kafka that all targets name.
    :param roots: returns the control root of a URL.
    """

    def __init__(self, client: KafkaClient, roots: Roots) -> None:
        self._client = client
        self._roots = roots
        self._logs: dict[LagTarget, tuple[ControlRoot, ControlLog]] = {}
        self._left: dict[LagTarget, Future[Any]] = {}  # what hangs since an earlier look

    def read(self, targets: Mapping[LagTarget, Moments]) -> dict[LagTarget, LagReport | StreamError]:
        """Return a report for each target, or the error that prevents one. No target's error is that of another.

        :param targets: each with the moments that its report must say exactly.
        :raises StreamError: Kafka does not answer, or refuses the connection.
        """
        # All groups at once: the number of requests must not grow with the number of sensors.
        offsets = self._client.groups_offsets({target.group for target in targets} - {""})
        committed: dict[LagTarget, Sequence[Committed]] = {
            target: [group_committed(target.group, offsets)] for target in targets if target.group
        }
        failed: dict[LagTarget, StreamError] = {}
        # Only streams have files, which may hang.
        reads = {target: partial(self._committed, target) for target in targets if not target.group}
        for target, found in gather(reads, READ_SECONDS, left=self._left).items():
            if isinstance(found, Exception):
                failed[target] = _unmeasured(target.name, found)
            else:
                committed[target] = found
        return {**measure_apart(self._client, committed, targets, lambda target: target.name), **failed}

    def _committed(self, target: LagTarget) -> Sequence[Committed]:
        root = self._roots(target.control)
        known, log = self._logs.get(target, (None, None))
        if log is None or known is not root:  # another one: its connection was changed
            log = ControlLog(root.store(target.stream), target.stream)
            self._logs[target] = root, log
        return read_committed(log, target.control)


def read_committed(log: ControlLog, control: str) -> list[Committed]:
    """Return how far the queries of a stream are, by their checkpoints or the heartbeat of their driver.

    :param control: URL of its control root.
    :raises StreamError: its control log cannot be read.
    """
    state = log.refresh()
    beat = log.heartbeat(state.last_holder) if state.last_holder else None
    beats = {} if beat is None or state.last_holder is None else {state.last_holder: beat}
    return read_sources(log.stream, control, state, beats, log.store)


def measure_apart(
    client: KafkaClient,
    committed: Mapping[K, Sequence[Committed]],
    moments: Mapping[K, Moments],
    name: Callable[[K], str],
) -> dict[K, LagReport | StreamError]:
    """Return a report for each key, or the error that prevents one; no key's error is that of another.

    :param committed: the committed offsets of each key's queries.
    :param moments: what each report must say exactly.
    :param name: the stream or group of a key, for messages.
    :raises StreamError: Kafka does not answer, or refuses the connection.
    """
    from airflow_stream_provider.lag.measure import measure_each

    try:
        return {**measure_each(client, committed, moments)}
    except StreamError:
        raise
    except Exception as error:  # noqa: BLE001 - found out below, whose it is
        if len(committed) == 1:
            return {key: _unmeasured(name(key), error) for key in committed}
    # By halves: one bad one of a thousand costs twenty measurements.
    keys = list(committed)
    halves = keys[: len(keys) // 2], keys[len(keys) // 2 :]
    found = (measure_apart(client, {key: committed[key] for key in half}, moments, name) for half in halves)
    return {key: each for half in found for key, each in half.items()}


class LagUnmeasured(StreamError):
    """The lag of one stream or group could not be measured, for a reason of its own; `kind`: type of the error."""


def _unmeasured(name: str, error: Exception) -> StreamError:
    if isinstance(error, StreamError):
        return error
    kind = type(error).__name__
    return LagUnmeasured(
        f"The lag of {name} cannot be measured: {kind}: {error}.",
        next_step="Look at its control folder and its checkpoint; if both are sound, report this message.",
        kind=kind,
    )


def measure_lag(target: LagTarget, extra: Mapping[str, Any], roots: Roots, moments: Moments) -> LagReport:
    """Measure one target once, with a connection to Kafka of its own.

    :param extra: of the Airflow connection that the target names.
    :param roots: returns the control root of a URL.
    :param moments: what the report must say exactly.
    :raises StreamError: Kafka, or the stream's control log, cannot be read.
    """
    from airflow_stream_provider.kafka.client import KafkaClient

    with KafkaClient(target.kafka, extra) as client:
        found = LagReader(client, roots).read({target: moments})[target]
    if isinstance(found, StreamError):
        raise found
    return found


def measure_sources(
    kafka: str, extra: Mapping[str, Any], sources: Callable[[], Sequence[Committed]], moments: Moments
) -> LagReport:
    """Measure queries whose committed offsets are somewhere else, with a connection to Kafka of its own.

    :param kafka: Airflow connection id, for messages.
    :param extra: of that connection.
    :param sources: returns the committed offsets; it may hang, which is an error after READ_SECONDS.
    :param moments: what the report must say exactly.
    :raises StreamError: Kafka does not answer, or refuses the connection.
    """
    from airflow_stream_provider.kafka.client import KafkaClient

    committed = gather({"the stream": sources}, READ_SECONDS)["the stream"]
    if isinstance(committed, Exception):
        raise _unmeasured("the stream", committed) from committed
    with KafkaClient(kafka, extra) as client:
        found = measure_apart(client, {"the stream": committed}, {"the stream": moments}, str)["the stream"]
    if isinstance(found, StreamError):
        raise found
    return found
