"""Wait for a stream, or a consumer group, to keep up with Kafka; fail when it does not."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_stream_provider.hooks.connections import kafka_extra
from airflow_stream_provider.lag.limits import BAD, LagLimits
from airflow_stream_provider.lag.report import Alarm, Ceilings, Verdict
from airflow_stream_provider.lag.streaks import Streaks
from airflow_stream_provider.lag.summary import summary
from airflow_stream_provider.lag.targets import LagTarget, measure_lag
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.operators.base import failing_without_retry
from airflow_stream_provider.planning.lag_conditions import CaughtUp, LagCondition, Look, Unknown, WithinLimits
from airflow_stream_provider.planning.wait_outcome import Ended, WaitOutcome
from airflow_stream_provider.triggers.lag import LagTrigger

if TYPE_CHECKING:
    from airflow_stream_provider.spec.stream import StreamSpec


class _LagSensor(BaseSensorOperator):
    """What both have in common: whose lag it is, and where it is looked at.

    Deferred, they do not look first: hundreds that start at once would each connect to Kafka, where the triggerer has
    one reader for all of them.
    """

    template_fields: Sequence[str] = ("group", "kafka")
    ui_color = "#e6f3f8"

    def __init__(
        self,
        *,
        stream: StreamSpec | None = None,
        group: str = "",
        kafka: str = "",
        deferrable: bool = True,
        poke_interval: float | timedelta = 30.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.stream = stream
        self.group = group
        self.kafka = kafka
        self.deferrable = deferrable
        self._spells = Streaks()
        LagTarget.of(stream, group, kafka)  # refused when the DAG is parsed
        if self.reschedule and not deferrable:
            raise SpecError(
                f"{self.task_id} would forget what it has seen whenever it is rescheduled.",
                next_step="Leave deferrable=True, or mode='poke'.",
            )

    def condition(self) -> LagCondition:
        """What is waited for."""
        raise NotImplementedError

    @property
    def target(self) -> LagTarget:
        """Whose lag it is."""
        return LagTarget.of(self.stream, self.group, self.kafka)

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
        self.defer(trigger=trigger, method_name="resume")

    def prepare(self, context: Context) -> None:
        """What comes before the wait."""

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once."""
        report, problem = None, ""
        try:
            report = measure_lag(self.target, kafka_extra(self.target.kafka))
        except SpecError:
            raise
        except StreamError as error:
            problem = str(error)
            self.log.warning("The lag cannot be known now: %s", problem)
        outcome = self.condition().check(Look(report.at if report else time.time(), report, problem), self._spells)
        if outcome is None:
            return PokeReturnValue(False)
        ceilings = self.stream.lag.limits.ceilings if self.stream else Ceilings()
        evidence = summary(report, ceilings, partitions=False) if report else {}
        return PokeReturnValue(True, self._end(context, replace(outcome, evidence=evidence)))

    def resume(self, context: Context, event: Any = None) -> dict[str, Any]:
        """Finish; the XCom is what was found in the end."""
        return self._end(context, WaitOutcome.from_event(event))

    def _end(self, context: Context, outcome: WaitOutcome) -> dict[str, Any]:
        found = dict(outcome.evidence)
        if outcome.ended is Ended.REACHED:
            return found
        if found:
            # Raising loses the return value.
            context["ti"].xcom_push(key="return_value", value=found)
        sentence = f"{self.target.name}: {outcome.reason}".rstrip(".") + "."
        if self.soft_fail or (outcome.ended is Ended.UNKNOWN and self.skips_unknown):
            raise AirflowSkipException(sentence)
        raise AirflowFailException(sentence)

    @property
    def skips_unknown(self) -> bool:
        """Whether a lag that cannot be known ends the task as skipped."""
        return False


class KafkaLagSensor(_LagSensor):
    """Pass as soon as a lag is within its limits; fail when it has been beyond them for some time.

    Three things can be said of a lag. It passes: everything that is judged is known and good. It fails: something is
    beyond a limit, whatever else is not known. Or it is unknown (Kafka does not answer, a partition has no leader,
    there is no checkpoint yet): that is never taken for no lag.

    :param stream: the stream, as read by `load_spec`; or else
    :param group: a consumer group, with `kafka`, Airflow connection of type `kafka`. (both templated)
    :param max_records: records that a query may be behind; default: the stream's `lag.max_records`. 0 is a limit.
    :param max_seconds: age of the oldest record that is not committed; default: the stream's `lag.max_seconds`.
    :param per_partition: `max_records` is that of each partition, rather than of all together.
    :param verdicts: Burrow's verdicts on a partition that are bad, of WARN, STOP, STALL, REWIND; default for a stream:
        the last three. Kafka keeps no times of a group's commits, so a group cannot be judged by them.
    :param alarms: those beside them that are bad, of COMMIT_AGE, RETENTION, STUCK_TRANSACTION, LOST_DATA; default: all.
    :param for_at_least: seconds for which the lag must have been bad before it fails; the saw-tooth of a healthy stream
        and a spike are not meant. Seen at every look in between; looks that show nothing do not count against it.
    :param unknown: `wait` (until the time is over), `fail` or `skip` when nothing has been known for `for_at_least`.
    :param deferrable: wait in the triggerer; with False a worker slot is held.

    `poke_interval` (default 30 s) and `timeout` are in seconds, as of every sensor. XCom: what was found in the end,
    also when the task fails.
    """

    def __init__(
        self,
        *,
        max_records: int | None = None,
        max_seconds: float | None = None,
        per_partition: bool = False,
        verdicts: Iterable[Verdict | str] | None = None,
        alarms: Iterable[Alarm | str] = tuple(Alarm),
        for_at_least: float | timedelta = 0.0,
        unknown: Unknown | str = Unknown.WAIT,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        own = self.stream.lag.limits if self.stream else LagLimits()
        self.max_records = own.max_records if max_records is None else max_records
        self.max_seconds = own.max_seconds if max_seconds is None else max_seconds
        self.per_partition = per_partition
        if self.stream is None and verdicts is not None:
            raise SpecError(
                "A consumer group cannot be judged by Burrow's verdicts: Kafka does not say when it committed.",
                next_step="Leave verdicts away and give max_records or max_seconds.",
            )
        default = BAD if self.stream else ()
        self.verdicts = tuple(Verdict(each).value for each in (default if verdicts is None else verdicts))
        self.alarms = tuple(Alarm(each).value for each in alarms)
        self.ceilings = own.ceilings
        self.for_at_least = for_at_least.total_seconds() if isinstance(for_at_least, timedelta) else float(for_at_least)
        self.unknown = Unknown(unknown).value

    @property
    def limits(self) -> LagLimits:
        """What is judged by."""
        return LagLimits(
            self.max_records,
            self.max_seconds,
            self.per_partition,
            tuple(Verdict(each) for each in self.verdicts),
            tuple(Alarm(each) for each in self.alarms),
            self.ceilings,
        )

    def condition(self) -> LagCondition:
        """What is waited for."""
        return WithinLimits(self.limits.to_json(), self.for_at_least, self.unknown)

    @property
    def skips_unknown(self) -> bool:
        """Whether a lag that cannot be known ends the task as skipped."""
        return self.unknown == Unknown.SKIP


class StreamCaughtUpSensor(_LagSensor):
    """Wait until every record that was in Kafka at a moment has been committed: a gate before what reads the output.

    It needs no limits, and passes on a stream that is never without new records. What is not known is not caught up.

    :param stream: the stream, as read by `load_spec`; or else
    :param group: a consumer group, with `kafka`, Airflow connection of type `kafka`. (both templated)
    :param moment: ISO 8601, such as ``{{ data_interval_end }}``, by the times of the records; default: when the task
        begins to wait. (templated)
    :param deferrable: wait in the triggerer; with False a worker slot is held.

    `poke_interval` (default 30 s) and `timeout` are in seconds, as of every sensor.
    """

    template_fields: Sequence[str] = ("group", "kafka", "moment")

    def __init__(self, *, moment: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.moment = moment
        self._since = 0.0

    def prepare(self, context: Context) -> None:
        """Settle the moment."""
        self._since = _seconds(self.moment) if self.moment else time.time()

    def condition(self) -> LagCondition:
        """What is waited for."""
        return CaughtUp(self._since)


def _seconds(moment: str) -> float:
    try:
        found = datetime.fromisoformat(moment)
    except ValueError as error:
        raise SpecError(
            f"{moment!r} is not a moment in ISO 8601.", next_step="Write it like 2026-01-31T12:00Z."
        ) from error
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
