"""Watch a stream: how far it is behind, whether it lives; tell people, and bring back what has died."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from airflow_stream_provider.lag.limits import Health, LagJudgement
from airflow_stream_provider.lag.report import LagReport
from airflow_stream_provider.lag.streaks import Incident
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.monitoring.health import silent_since, symptoms
from airflow_stream_provider.monitoring.incidents import Alert, follow, told, untold
from airflow_stream_provider.monitoring.samples import LagSample, append, queries_of, read
from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.planning.conditions import Needs
from airflow_stream_provider.planning.recover import drivers_of_interest, recover
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Step
from airflow_stream_provider.planning.task_identity import TaskIdentity
from airflow_stream_provider.planning.wait_outcome import WaitOutcome


class WatchStreamOperator(StreamOperator):
    """Look at a stream once; then, if it has lost its holder and nobody stopped it, bring it back.

    A look measures the lag, sends the gauges, adds a sample to those that the command line shows, and tells people of
    every trouble twice: when it opens and when it is over, with the same incident id. Kinds of trouble: `down`, `lag`,
    `lag_unknown`, `offsets_group`.

    Bringing back fences the dead driver (killed, and confirmed gone by the cluster), ends requests that nobody can
    fulfil any more, appoints a warm driver whose release has run the stream before, or else starts the last one that
    did. A new release is never put in charge; a stream that was stopped or has finished is left alone.

    :param notify: what tells people: notifiers of Airflow, in whose templates `alert` has `subject` and `text` (see
        `Alert` and `LagAlert`), or functions that take an alert; default: the YAML's `notify`.
    :param for_at_least: seconds that the lag must be too much, or well again, before it counts; default: the YAML's
        `watch.for_at_least`.

    XCom: `holder`, `phase`; under the key `sample` what the look found.
    """

    WAIT_SECONDS = 1500.0

    def __init__(
        self, *, notify: Sequence[Any] | None = None, for_at_least: float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.notify = notify
        self.for_at_least = self.stream.watch.for_at_least if for_at_least is None else for_at_least
        self._before: Mapping[str, int] = {}

    def begin(self, context: Context) -> None:
        """Look."""
        if not self.hook.folder.exists() and self.hook.folder.parent.is_dir():
            raise AirflowSkipException("This stream has never been deployed.")
        snapshot = self.hook.observe()
        store = self.hook.control_log.store
        samples = read(store)
        report, problem = self._measure()
        sample = self._sample(snapshot, samples, report, problem)
        sample = self._tell(context, sample, report, samples)
        append(store, sample)
        context["ti"].xcom_push(key="sample", value=sample.to_json())

    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        """Return the next step to bring it back."""
        return recover(snapshot, identity, outcome, self._before)

    def needs(self, snapshot: Snapshot, identity: TaskIdentity) -> Needs:
        """Ask the cluster about drivers on their way."""
        return Needs(drivers=drivers_of_interest(snapshot))

    def _measure(self) -> tuple[LagReport | None, str]:
        """The lag, or why it is not known; whatever it is, the stream may need to be brought back."""
        # Here: a DAG file that is parsed needs none of them.
        from airflow_stream_provider.hooks.connections import kafka_extra
        from airflow_stream_provider.lag.targets import LagTarget, measure_lag
        from airflow_stream_provider.monitoring.metrics import emit

        if self.stream.kafka is None:
            return None, ""
        try:
            report = measure_lag(LagTarget.of(self.stream), kafka_extra(self.stream.kafka))
        except StreamError as error:
            self.log.warning("How far %s is behind is not known: %s", self.stream.name, error)
            return None, str(error)
        emit(self.stream.name, report)
        return report, ""

    def _sample(
        self, snapshot: Snapshot, samples: Sequence[LagSample], report: LagReport | None, problem: str
    ) -> LagSample:
        limits = self.stream.lag.limits
        judgement = limits.judge(report) if report else LagJudgement(Health.UNKNOWN, (problem,))
        last = samples[-1] if samples else LagSample(snapshot.at)
        self._before = last.counters
        holder = snapshot.state.holder
        silent = silent_since(samples, holder, snapshot.counter(holder)) if holder else None
        found = symptoms(snapshot, judgement if self.stream.kafka else None, silent, self.for_at_least)
        for kind, symptom in found.items():
            if symptom.health is Health.FAIL:
                self.log.warning("%s: %s", kind, symptom.description)
        held = snapshot.state.holding_deployment
        return LagSample(
            at=time.time(),
            phase=snapshot.state.phase.value,
            version=held.release.version if held else "",
            queries=queries_of(report, limits.ceilings) if report else {},
            problem=problem,
            incidents=follow(self.stream.name, last.incidents, found, snapshot.at),
            counters={name: snapshot.counter(name) for name in snapshot.heartbeats},
        )

    def _tell(
        self, context: Context, sample: LagSample, report: LagReport | None, samples: Sequence[LagSample]
    ) -> LagSample:
        """Tell everybody what is new to him; whoever could not be told now is told at the next look."""
        # Here: a DAG file that is parsed needs none of it.
        from airflow_stream_provider.monitoring.delivery import deliver, named

        def write(alert: Any) -> None:
            self.log.warning("%s\n%s", alert.subject, alert.text)

        to = {"log": write} | named(self.stream.notify if self.notify is None else self.notify)
        deaf: set[str] = set()
        for alert, people in untold(self.stream.name, sample.incidents, sample.at, to):
            message = self._message(alert, sample, report, samples)
            taken = deliver(message, {who: to[who] for who in people if who not in deaf}, context)
            # Who has not heard of an end does not hear of the next beginning before.
            deaf.update(set(people) - taken)
            sample = replace(sample, incidents=told(sample.incidents, alert, taken))
        return sample

    def _message(self, alert: Alert, sample: LagSample, report: LagReport | None, samples: Sequence[LagSample]) -> Any:
        from airflow_stream_provider.notifications.lag import alert_of

        links: dict[str, str] = {}
        held = self.hook.control_log.state.holding_deployment
        if held is not None:
            with contextlib.suppress(StreamError):
                links = self.hook.links(held.id)
        if alert.kind != "lag":
            return replace(alert, links=links)
        incident, limits = Incident(alert.incident, alert.since), self.stream.lag.limits
        lag = alert_of(alert.stream, report, sample.problem, samples, limits, incident, links)
        return replace(lag, open=alert.open)
