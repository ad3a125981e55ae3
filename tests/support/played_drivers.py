"""The drivers of a stream, played: they answer in a real control log what is asked of them there. Nothing runs."""

from __future__ import annotations

import contextlib
import threading
import time
from types import TracebackType

from airflow_stream_provider.control import open_log
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.rules import live_standby
from airflow_stream_provider.lifecycle.state import Request, RequestStage, StreamState
from tests.support.story import acquired, ready, released, standby


class PlayedDrivers:
    """While it is entered, every driver of the stream lives: it comes up, answers, releases and acquires at once.

    :param deaf: no holder releases.
    :param appoints: whether a standby answers a request.
    """

    def __init__(self, control: str, stream: str = "orders", *, deaf: bool = False, appoints: bool = True) -> None:
        self._control, self._stream, self._deaf, self._appoints = control, stream, deaf, appoints
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._play, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(30)

    def _play(self) -> None:
        log, counter = None, 0
        while not self._over.wait(0.02):
            with contextlib.suppress(StreamError):  # somebody was faster, or the stream is not there yet
                log = log or open_log(self._control, self._stream)
                counter += 1
                state = log.refresh()
                for driver in state.incarnations.values():
                    if not driver.state.terminal:
                        log.beat(driver.id, Heartbeat(at=time.time(), counter=counter))
                answer = self._answer(state)
                if answer is not None:
                    log.append(answer, state.seq)

    def _answer(self, state: StreamState) -> Record | None:
        for each in state.deployments.values():
            if each.submission and not each.ended and not state.of_deployment(each.id):
                return standby(f"{each.id}.00000001")
        request = state.open_request
        return None if request is None else self._next(state, request)

    def _next(self, state: StreamState, request: Request) -> Record | None:
        to = request.to or ""
        if to and not live_standby(state, to):
            return None
        if to and request.stage is RequestStage.REQUESTED:
            return ready(request.id, to) if self._appoints else None
        if state.holder is not None:
            return None if self._deaf else released(state.holder, request.id, request.to)
        return acquired(to, request.id, state.epoch + 1)
