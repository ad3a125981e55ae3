"""Wait until a stream, or a consumer group, keeps up with Kafka; fail when it does not."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from typing_extensions import override

from airflow_stream_provider.hooks.failing import failing_without_retry
from airflow_stream_provider.hooks.lag import look_at_lag
from airflow_stream_provider.lag.limits import LagLimits, Streaks
from airflow_stream_provider.lag.report import Alarm, Verdict
from airflow_stream_provider.lag.targets import LagTarget
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.planning.lag_conditions import CaughtUp, LagCondition, Unknown, WithinLimits
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from airflow_stream_provider.spec.lag_target import lag_target, own_limits
from airflow_stream_provider.triggers.grace import beyond
from airflow_stream_provider.triggers.lag import LagTrigger

if TYPE_CHECKING:
    from airflow_stream_provider.spec.stream import StreamSpec


class _LagSensor(BaseSensorOperator):
    """Base of the lag sensors: whose lag is measured, and where.

    A deferrable sensor does not look before it defers: hundreds that start at once would each connect to Kafka, while
    the triggerer has one reader for all of them. Without deferring, Airflow's own loop calls `poke`, so that `mode`,
    `exponential_backoff`, `silent_fail` and AirflowSensorTimeout are those of every sensor.
    """

    template_fields: Sequence[str] = ("group", "kafka", "ledger")
    ui_color = "#e6f3f8"

    def __init__(
        self,
        *,
        stream: StreamSpec | None = None,
        group: str = "",
        kafka: str = "",
        ledger: str = "",
        deferrable: bool = True,
        poke_interval: float | timedelta = 30.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.stream = stream
        self.group = group
        self.kafka = kafka
        self.ledger = ledger
        # Raises while the DAG is parsed. The threads of a triggerer cannot read connections, as a database's hook does.
        self.deferrable = deferrable and not lag_target(stream, group, kafka, ledger).ledger
        if self.reschedule and not self.deferrable:
            raise SpecError(
                f"{self.task_id} would forget its looks whenever it is rescheduled.",
                next_step="Leave deferrable=True, or mode='poke'. A ledger is read in the worker: then mode='poke'.",
            )

    def condition(self) -> LagCondition:
        """Return what to wait for."""
        raise NotImplementedError

    @property
    def target(self) -> LagTarget:
        """The stream or group whose lag is measured."""
        return lag_target(self.stream, self.group, self.kafka, self.ledger)

    def execute(self, context: Context) -> Any:
        """Wait in the triggerer, or here."""
        with failing_without_retry():
            self.prepare(context)
            if self.deferrable:
                self._defer()
            return super().execute(context)

    def _defer(self) -> NoReturn:
        trigger = LagTrigger(
            self.target.to_json(), self.condition().to_json(), max(1.0, self.poke_interval), time.time() + self.timeout
        )
        self.defer(trigger=trigger, method_name="resume", timeout=beyond(self.timeout))

    def prepare(self, context: Context) -> None:
        """Do what must be done before the wait."""

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once, and finish when the condition ends the wait."""
        condition = self.condition()
        look = look_at_lag(self.target, condition.moments)
        if look.problem:
            self.log.warning("The lag cannot be measured now: %s", look.problem)
        outcome = condition.check(look, self._memory)
        if outcome is None:
            return PokeReturnValue(False)
        return PokeReturnValue(True, self._end(context, outcome, condition.evidence(look)))

    @cached_property
    def _memory(self) -> Streaks:
        return self.condition().new_memory()

    def resume(self, context: Context, event: Any = None) -> dict[str, Any]:
        """Finish: return the last report as XCom, fail, or skip."""
        outcome = WaitOutcome.from_event(event)
        return self._end(context, outcome, outcome.evidence)

    def _end(self, context: Context, outcome: WaitOutcome, evidence: Mapping[str, Any]) -> dict[str, Any]:
        found = dict(evidence)
        if outcome.ended is Ended.REACHED:
            return found
        if found:
            # Airflow pushes no return value for a task that raises.
            context["ti"].xcom_push(key="return_value", value=found)
        sentence = f"{self.target.name}: {outcome.reason}".rstrip(".") + "."
        if self.soft_fail or (outcome.ended is Ended.UNKNOWN and self.skips_unknown):
            raise AirflowSkipException(sentence)
        if outcome.ended is Ended.CANNOT_LOOK:
            # Perhaps what keeps the connection is away for longer than the trigger has waited for it: retries help.
            raise StreamError(sentence)
        again = "wait again, or give a larger timeout" if outcome.ended is Ended.TIMEOUT else "measure again"
        raise AirflowFailException(f"{sentence} Clear the task to {again}.")

    @property
    def skips_unknown(self) -> bool:
        """Whether an unknown lag skips the task instead of failing it."""
        return False


class KafkaLagSensor(_LagSensor):
    """Pass as soon as a lag is within its limits; fail when it has been beyond them for some time.

    A lag is judged in one of three ways. It passes: everything that the limits judge is known and good. It fails:
    something is beyond a limit, even if something else is unknown. Or it is unknown (Kafka does not answer, a partition
    has no leader, there is no checkpoint yet), which never counts as no lag.

    :param stream: the stream, as read by `load_spec`; or else
    :param group: a consumer group, with `kafka`, Airflow connection of type `kafka`. (both templated)
    :param max_records: records that a query may be behind; default: the stream's `lag.max_records`. 0 is a limit.
    :param max_seconds: age of the oldest record that is not committed; default: the stream's `lag.max_seconds`.
    :param per_partition: `max_records` counts for each partition, not for their sum.
    :param verdicts: Burrow's verdicts on a partition that are bad, of WARN, STOP, STALL, REWIND; default: the stream's
        `lag.verdicts`. Kafka does not record when a group committed, so a group has none.
    :param alarms: alarms that are bad, of COMMIT_AGE, RETENTION, STUCK_TRANSACTION, LOST_DATA, TOPIC_RECREATED;
        default: the stream's `lag.alarms`; for a group all.
    :param for_at_least: seconds for which the lag must have been bad before the sensor fails, so that a spike, or the
        saw-tooth of a healthy stream, does not fail it. Every look in between must be bad or unknown.
    :param unknown: `wait` (until the timeout), `fail` or `skip` when the lag has been unknown for `for_at_least`.
    :param deferrable: wait in the triggerer; with False a worker slot is held.

    `poke_interval` (default 30 s) and `timeout` are in seconds, as of every sensor. XCom: the last report, also when
    the task fails.
    """

    def __init__(
        self,
        *,
        max_records: int | None = None,
        max_seconds: float | None = None,
        per_partition: bool = False,
        verdicts: Iterable[Verdict | str] | None = None,
        alarms: Iterable[Alarm | str] | None = None,
        for_at_least: float | timedelta = 0.0,
        unknown: Unknown | str = Unknown.WAIT,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        own = own_limits(self.stream)
        self.max_records = own.max_records if max_records is None else max_records
        self.max_seconds = own.max_seconds if max_seconds is None else max_seconds
        self.per_partition = per_partition
        if self.stream is None and verdicts is not None:
            raise SpecError(
                "A consumer group cannot be judged by Burrow's verdicts: Kafka does not record when it committed.",
                next_step="Leave verdicts away and give max_records or max_seconds.",
            )
        default = own.verdicts if self.stream else ()
        self.verdicts = tuple(Verdict(each).value for each in (default if verdicts is None else verdicts))
        self.alarms = tuple(Alarm(each).value for each in (own.alarms if alarms is None else alarms))
        self.ceilings = own.ceilings
        self.for_at_least = for_at_least.total_seconds() if isinstance(for_at_least, timedelta) else float(for_at_least)
        self.unknown = Unknown(unknown).value

    @property
    def limits(self) -> LagLimits:
        """The limits that the lag is judged by."""
        return LagLimits(
            self.max_records,
            self.max_seconds,
            self.per_partition,
            tuple(Verdict(each) for each in self.verdicts),
            tuple(Alarm(each) for each in self.alarms),
            self.ceilings,
        )

    @override
    def condition(self) -> LagCondition:
        return WithinLimits(self.limits.to_json(), self.for_at_least, self.unknown)

    @property
    def skips_unknown(self) -> bool:
        """Whether an unknown lag skips the task instead of failing it."""
        return self.unknown == Unknown.SKIP


class StreamCaughtUpSensor(_LagSensor):
    """Wait until every record that was in Kafka at a moment is committed: a gate for tasks that read the output.

    Needs no limits, and passes on a stream that always has new records. An unknown lag does not count as caught up.

    :param stream: the stream, as read by `load_spec`; or else
    :param group: a consumer group, with `kafka`, Airflow connection of type `kafka`. (both templated)
    :param moment: ISO 8601, such as ``{{ data_interval_end }}``, by the times of the records; default: when the task
        begins to wait. (templated)
    :param deferrable: wait in the triggerer; with False a worker slot is held.

    `poke_interval` (default 30 s) and `timeout` are in seconds, as of every sensor.
    """

    template_fields: Sequence[str] = ("group", "kafka", "ledger", "moment")

    def __init__(self, *, moment: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.moment = moment
        self._since = 0.0

    def prepare(self, context: Context) -> None:
        """Compute the moment."""
        self._since = _seconds(self.moment) if self.moment else time.time()

    @override
    def condition(self) -> LagCondition:
        return CaughtUp(own_limits(self.stream).to_json(), self._since)


def _seconds(moment: str) -> float:
    try:
        found = datetime.fromisoformat(moment)
    except ValueError as error:
        raise SpecError(
            f"{moment!r} is not a moment in ISO 8601.", next_step="Write it like 2026-01-31T12:00Z."
        ) from error
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
