"""Wait until a stream is in a phase."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.planning.conditions import InPhase
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from airflow_stream_provider.triggers.grace import beyond
from airflow_stream_provider.triggers.stream import StreamTrigger

if TYPE_CHECKING:
    from airflow_stream_provider.hooks.stream import StreamHook
    from airflow_stream_provider.spec.stream import StreamSpec


class StreamSensor(BaseSensorOperator):
    """Wait until a stream is in one of these phases, and, if asked for, held by one release.

    :param stream: the stream, as read by `load_spec`.
    :param phases: one or several of StreamPhase, such as `StreamPhase.RUNNING`.
    :param version: only if the holder's release has this label. (templated)
    :param deferrable: wait in the triggerer; with False a worker slot is held.

    `timeout` is in seconds, as of every sensor.
    """

    template_fields: Sequence[str] = ("version",)

    def __init__(
        self,
        *,
        stream: StreamSpec,
        phases: StreamPhase | str | Sequence[StreamPhase | str] = StreamPhase.RUNNING,
        version: str = "",
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        # StreamPhase is a str, and so a sequence itself.
        wanted = (phases,) if isinstance(phases, str) else tuple(phases)
        self.phases = tuple(StreamPhase(phase).value for phase in wanted)
        self.version = version
        self.deferrable = deferrable

    @cached_property
    def hook(self) -> StreamHook:
        """The hook of the stream."""
        # Imported here: parsing a DAG file needs no hook, nor the clients behind it.
        from airflow_stream_provider.hooks.stream import StreamHook

        return StreamHook.of(self.stream)

    @property
    def condition(self) -> InPhase:
        """The phases, and the release, to wait for."""
        return InPhase(self.phases, self.version)

    def poke(self, context: Context) -> bool:
        """Look once; return whether the stream is in a phase that is waited for.

        A stream that was never deployed, or whose control folder is away for a moment, is not.
        """
        try:
            snapshot = self.hook.observe()
        except ControlUnavailable as error:
            self.log.info("%s Looking again later.", error)
            return False
        return self.condition.check(snapshot, self.condition.new_memory()) is not None

    def execute(self, context: Context) -> Any:
        """Look once, then defer; without deferring, leave it to Airflow's own loop, which calls `poke`."""
        if not self.deferrable:
            super().execute(context)
        elif not self.poke(context):
            trigger = StreamTrigger(self.hook.address, self.condition.to_json(), time.time() + self.timeout)
            self.defer(trigger=trigger, method_name="resume", timeout=beyond(self.timeout))

    def resume(self, context: Context, event: Any = None) -> None:
        """Finish; fail when the time is over, or skip with `soft_fail`."""
        outcome = WaitOutcome.from_event(event)
        if outcome.ended is not Ended.REACHED:
            error = AirflowSkipException if self.soft_fail else AirflowFailException
            raise error(f"{self.stream.name}: {outcome.reason} Clear the task to wait again, or give a larger timeout.")
