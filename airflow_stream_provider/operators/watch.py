"""Watch a stream: measure its lag, tell people of incidents, and bring back a stream that has lost its driver."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from airflow_stream_provider.lag.look import LagLook
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.monitoring.samples import append, read
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
    every incident twice: when it opens and when it is over, with the same id. For the kinds see `IncidentKind`.

    Bringing back fences the dead driver (killed, and confirmed gone by the cluster), ends requests that nobody can
    fulfil any more, appoints a warm driver whose release has run the stream before, or else starts the last release
    that did. A new release is never put in charge; a stream that was stopped or has finished is left alone.

    Once an hour it also removes heartbeats and releases that nobody needs any more; see `planning.clean_up`.

    :param notify: who is told: notifiers of Airflow, in whose templates `alert` is an Alert, or functions that take
        one; default: the YAML's `notify`.
    :param for_at_least: seconds that the lag must be bad, or good again, before it counts; default: the YAML's
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
        """Look, send the alerts that are due, and keep the sample."""
        # Imported here: parsing a DAG file needs neither notifiers nor metrics.
        from airflow_stream_provider.monitoring.delivery import ImportedRecipient
        from airflow_stream_provider.monitoring.watch_look import Alerts, sample_of

        if not self.hook.exists():
            raise AirflowSkipException("This stream has never been deployed.")
        snapshot = self.hook.observe()
        store, limits = self.hook.control_log.store, self.stream.lag.limits
        samples = read(store)
        self._before = samples[-1].counters if samples else {}
        lag = self._measure(snapshot) if self.stream.kafka else None
        sample = sample_of(snapshot, lag, samples, limits, self.for_at_least)
        in_yaml = [ImportedRecipient(each.call, each.arguments) for each in self.stream.notify]
        alerts = Alerts(in_yaml if self.notify is None else self.notify, context, self._links)
        sample = alerts.send(self.stream.name, sample, lag, samples, limits)
        append(store, sample)
        # The first look of every hour.
        if not samples or samples[-1].at // 3600 != sample.at // 3600:
            self.hook.clean_up()
        context["ti"].xcom_push(key="sample", value=sample.to_json())

    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        """Return the next step to bring it back."""
        return recover(snapshot, identity, outcome, self._before)

    def needs(self, snapshot: Snapshot, identity: TaskIdentity) -> Needs:
        """Ask the cluster about drivers that are coming up."""
        return Needs(drivers=drivers_of_interest(snapshot))

    def _measure(self, snapshot: Snapshot) -> LagLook:
        """Measure the lag; without the cluster's connection, whose absence must not hide the lag."""
        from airflow_stream_provider.hooks.connections import kafka_extra
        from airflow_stream_provider.lag.reader import measure_sources
        from airflow_stream_provider.lag.targets import stream_sources
        from airflow_stream_provider.monitoring.metrics import emit

        kafka = self.stream.kafka or ""
        try:
            sources = stream_sources(self.stream.name, self.stream.control, snapshot.state, snapshot.heartbeats)
            report = measure_sources(kafka, kafka_extra(kafka), sources)
        except StreamError as error:
            self.log.warning("The lag of %s cannot be measured now: %s", self.stream.name, error)
            return LagLook.failed(error)
        emit(self.stream.name, report)
        return LagLook.of(report)

    def _links(self) -> Mapping[str, str]:
        held = self.hook.control_log.state.holding_deployment
        if held is not None:
            with contextlib.suppress(StreamError):
                return self.hook.links(held.id)
        return {}
