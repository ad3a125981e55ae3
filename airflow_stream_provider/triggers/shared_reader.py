"""One reader of lags for each Kafka connection in a triggerer, however many triggers there are."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from airflow_stream_provider.control.bounded import OnePlace
from airflow_stream_provider.hooks.connections import akafka_extra
from airflow_stream_provider.hooks.control import acontrol_root, control_root
from airflow_stream_provider.lag.limits import LagLook, Moments
from airflow_stream_provider.lag.reader import LagReader
from airflow_stream_provider.lag.summary import summary
from airflow_stream_provider.lag.targets import LagTarget
from airflow_stream_provider.lifecycle.errors import ConnectionUnavailable, SpecError, StreamError
from airflow_stream_provider.monitoring.metrics import emit

if TYPE_CHECKING:
    from airflow_stream_provider.kafka.client import KafkaClient

log = logging.getLogger(__name__)
T = TypeVar("T")

# Triggers that wake up at the same tick ask within this many seconds.
GATHER_SECONDS = 0.1
# A look is kept for so long, for triggers that need nothing newer.
KEPT_SECONDS = 60.0


@dataclass
class _Asked:
    """The waits for the next look at a target, and the numbers that all of them need exactly."""

    futures: list[asyncio.Future[LagLook]] = field(default_factory=list)
    moments: Moments = field(default_factory=Moments)


class SharedReader:
    """Measures the lags that all triggers ask for: with one thread, one connection and one measurement at a time.

    Triggers that ask while a measurement runs are answered together by the next one. So the number of requests to Kafka
    grows neither with the number of triggers nor with how often each of them asks.

    :param kafka: Airflow connection id, of type `kafka`; read again for every connection that is made.
    """

    def __init__(self, kafka: str) -> None:
        self.kafka = kafka
        self.users = 0
        self._asked: dict[LagTarget, _Asked] = {}
        self._last: dict[LagTarget, tuple[LagLook, Moments]] = {}
        self._task: asyncio.Task[None] | None = None
        self._thread = OnePlace(f"lag-{kafka}")
        self._client: KafkaClient | None = None
        self._reader: LagReader | None = None

    async def look(self, target: LagTarget, since: float, moments: Moments) -> LagLook:
        """Return a look that is not older than `since` (seconds since 1970).

        :param moments: what its report must say exactly.

        :raises SpecError: the Airflow connection is unusable.
        :raises ConnectionUnavailable: it cannot be read; perhaps it is missing.
        """
        last, known = self._last.get(target, (None, Moments()))
        if last is not None and last.at >= since and moments <= known:
            return last
        found: asyncio.Future[LagLook] = asyncio.get_running_loop().create_future()
        asked = self._asked.setdefault(target, _Asked())
        asked.futures.append(found)
        asked.moments |= moments
        if self._task is None:
            self._task = asyncio.create_task(self._measure_all(), name=f"lag of {self.kafka}")
        return await found

    def close(self) -> None:
        """Close the connection and end the thread, after the measurement that runs now."""
        if self._task is not None:
            self._task.cancel()
        self._thread.submit(self._disconnect)
        self._thread.close()

    # -- in the event loop -------------------------------------------------------------------------------------------

    async def _measure_all(self) -> None:
        try:
            while self._asked:
                await asyncio.sleep(GATHER_SECONDS)
                asked, self._asked = self._asked, {}
                await self._answer(asked)
        finally:
            self._task = None

    async def _answer(self, asked: Mapping[LagTarget, _Asked]) -> None:
        # A trigger that was cancelled meanwhile has cancelled its future.
        waiting = [(target, future) for target, each in asked.items() for future in each.futures]
        try:
            looks = await self._measure({target: each.moments for target, each in asked.items()})
        except asyncio.CancelledError:
            for _, future in waiting:
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - raised in the triggers that wait
            for _, future in waiting:
                if not future.done():
                    future.set_exception(error)
            return
        kept = {target: last for target, last in self._last.items() if last[0].at > time.time() - KEPT_SECONDS}
        self._last = {**kept, **{target: (look, asked[target].moments) for target, look in looks.items()}}
        for target, future in waiting:
            if not future.done():
                future.set_result(looks[target])

    async def _measure(self, targets: Mapping[LagTarget, Moments]) -> dict[LagTarget, LagLook]:
        began = time.time()
        try:
            extra = {} if self._client is not None else await akafka_extra(self.kafka)
            refused = await _refused({target.control for target in targets if target.control})
            readable = {target: moments for target, moments in targets.items() if target.control not in refused}
            found = await self._in_thread(partial(self._read, readable, extra)) if readable else {}
            return {target: found.get(target) or LagLook.failed(refused[target.control], began) for target in targets}
        except (SpecError, ConnectionUnavailable):
            raise
        except StreamError as error:
            problem = error
        log.warning("The lag cannot be measured now with the connection %s: %s", self.kafka, problem)
        # The connection may be broken. The next look makes a new one, with the credentials as they are then.
        await self._in_thread(self._disconnect)
        return {target: LagLook.failed(problem, began) for target in targets}

    def _in_thread(self, fn: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.wrap_future(self._thread.submit(fn))

    # -- in the thread -----------------------------------------------------------------------------------------------

    def _read(self, targets: Mapping[LagTarget, Moments], extra: Mapping[str, Any]) -> dict[LagTarget, LagLook]:
        from airflow_stream_provider.kafka.client import KafkaClient

        if self._client is None or self._reader is None:
            self._client = KafkaClient(self.kafka, extra)
            self._reader = LagReader(self._client, control_root)
        looks = {}
        for target, found in self._reader.read(targets).items():
            if isinstance(found, StreamError):
                looks[target] = LagLook.failed(found)
            else:
                # The report caches its sums. Compute them here, not in the event loop: there may be thousands of
                # partitions, and hundreds of triggers.
                summary(found)
                emit(target.name, found)
                looks[target] = LagLook.of(found)
        return looks

    def _disconnect(self) -> None:
        client, self._client, self._reader = self._client, None, None
        if client is not None:
            client.close()


_readers: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, SharedReader]] = WeakKeyDictionary()


@contextlib.asynccontextmanager
async def shared_reader(kafka: str) -> AsyncIterator[SharedReader]:
    """Share the reader of a Kafka connection within this event loop; the last one to leave closes it."""
    readers = _readers.setdefault(asyncio.get_running_loop(), {})
    if kafka not in readers:
        readers[kafka] = SharedReader(kafka)
    reader = readers[kafka]
    reader.users += 1
    try:
        yield reader
    finally:
        reader.users -= 1
        if reader.users == 0:
            del readers[kafka]
            reader.close()


async def next_tick(interval: float, deadline: float = math.inf) -> float:
    """Sleep until the next moment at which all triggers with this interval look, and return it (seconds since 1970)."""
    now = time.time()
    tick = min(now - now % interval + interval, deadline)
    await asyncio.sleep(tick - now)
    return tick


async def _refused(controls: Iterable[str]) -> dict[str, StreamError]:
    """Read the connections of control logs; return what is wrong with one by its URL: others are not to suffer."""
    found = {}
    for control in controls:
        try:
            await acontrol_root(control)
        except StreamError as error:
            found[control] = error
    return found
