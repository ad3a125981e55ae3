"""Watch a stream: measure its lag, tell people of incidents, and bring back a stream that has lost its driver."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException
from typing_extensions import override

from airflow_stream_provider.lag.look import LagLook
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, SpecError, StreamError
from airflow_stream_provider.monitoring.samples import LagSample, append, last, recent
from airflow_stream_provider.monitoring.samples import append as amend
from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.planning.conditions import Needs
from airflow_stream_provider.planning.recover import drivers_of_interest, recover
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Step
from airflow_stream_provider.planning.task_identity import TaskIdentity
from airflow_stream_provider.planning.wait_outcome import WaitOutcome

if TYPE_CHECKING:
    from airflow_stream_provider.lag.limits import LagLimits
    from airflow_stream_provider.monitoring.alert import Alert

# XCom of what the look found.
SAMPLE = "sample"
# XCom of the incident that the watch itself has failed. It is kept there because the control folder may be away.
WATCH_INCIDENT = "watch_incident"


class WatchStreamOperator(StreamOperator):
    """Look at a stream once; then, if it has lost its holder and nobody stopped it, bring it back.

    A look measures the lag, sends the gauges, adds a sample to those that the command line shows, and tells people of
    every incident twice: when it opens and when it is over, with the same id. For the kinds see `IncidentKind`. They
    are told after the first step of bringing it back, and a recipient that hangs is left behind after half a minute.
    A look that fails, say because the control folder is away or the log damaged, is an incident too, once the task has
    no retries left.

    Bringing back fences the dead driver (killed, and confirmed gone by the cluster), ends requests that nobody can
    fulfil any more, and appoints a warm driver of the release that held last, or else starts that release again; for
    the exceptions see `recovery_step`. A new release is never put in charge; a stream that was stopped or has finished
    is left alone.

    Once an hour it also removes heartbeats and releases that nobody needs any more; see `planning.clean_up`.

    :param notify: who is told: notifiers of Airflow, in whose templates `alert` is an Alert, or functions that take
        one; default: the YAML's `notify`.
    :param for_at_least: seconds that the lag must be bad, or good again, before it counts; default: the YAML's
        `watch.for_at_least`.

    XCom: `holder`, `phase`; under the key `sample` what the look found; under `watch_incident` that looking failed.
    """

    WAIT_SECONDS = 1500.0

    def __init__(
        self, *, notify: Sequence[Any] | None = None, for_at_least: float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.notify = notify
        self.for_at_least = self.stream.watch.for_at_least if for_at_least is None else for_at_least
        self._before: Mapping[str, int] = {}
        # What the look of this try found, while people have not been told of it.
        self._untold: tuple[LagSample, LagLook | None, list[LagSample]] | None = None

    def begin(self, context: Context) -> None:
        """Look, and keep the sample; or tell people that this is not possible."""
        try:
            self._look(context)
        except AirflowSkipException:
            raise
        except Exception as error:
            ti = context["ti"]
            # A retry may find the folder back; a SpecError has none.
            if isinstance(error, SpecError) or ti.try_number > ti.max_tries:
                # The text of a foreign error may hold what nobody should be sent.
                says = str(error) if isinstance(error, StreamError) else f"{type(error).__name__}; see the task's log."
                with self._never_failing():
                    self._tell_of_watch(context, f"The watch cannot look at it, and would not notice its end. {says}")
            raise

    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        """Return the next step to bring it back."""
        return recover(snapshot, identity, outcome, self._before)

    def needs(self, snapshot: Snapshot, identity: TaskIdentity) -> Needs:
        """Ask the cluster about drivers that are coming up."""
        return Needs(drivers=drivers_of_interest(snapshot))

    @override
    def _go(self, context: Context, outcome: WaitOutcome | None, deadline: float) -> Any:
        try:
            return super()._go(context, outcome, deadline)
        finally:
            # Last, also before a wait, which is an exception: a recipient that is slow must not delay the cure.
            with self._never_failing():
                self._tell(context)

    def _look(self, context: Context) -> None:
        # Imported here: parsing a DAG file needs no metrics.
        from airflow_stream_provider.monitoring.watch_look import found_symptoms, sample_of

        if not self.hook.exists():
            self._never_deployed(context)
        snapshot = self.hook.observe()
        store = self.hook.control_log.store
        before = last(store)
        self._before = before.counters if before else {}
        lag = self._measure(snapshot) if self.stream.kafka else None
        limits = self.stream.lag.limits
        found = found_symptoms(snapshot, lag, before, limits, self.for_at_least)
        sample = sample_of(snapshot, lag, before, limits, found)
        samples = recent(store)
        # Before people are told: should this process be killed meanwhile, the next look tells them.
        append(store, sample)
        # The first look of every hour.
        if before is None or before.at // 3600 != sample.at // 3600:
            self.hook.clean_up()
        self._untold = (sample, lag, samples)
        context["ti"].xcom_push(key=SAMPLE, value=sample.to_json())

    def _never_deployed(self, context: Context) -> NoReturn:
        """Skip this look; or fail when the stream was there at an earlier one, which Airflow remembers.

        Its folder is gone then: drivers without it halt, and with it this watch would forget the stream.
        """
        if not context["ti"].xcom_pull(task_ids=self.task_id, key=SAMPLE, include_prior_dates=True, map_indexes=-1):
            raise AirflowSkipException("This stream has never been deployed.")
        raise ControlUnavailable(
            f"There is no folder {self.hook.folder}, though an earlier run of this watch has seen the stream there.",
            next_step="Mount or restore it; its drivers wait for it for some minutes. If the stream is to begin anew: "
            "see that no driver of it is left on the cluster, then deploy it. If it is not wanted any more: remove its "
            "YAML.",
            folder=str(self.hook.folder),
        )

    def _tell(self, context: Context) -> None:
        """Send the alerts that are due after the look of this try, and keep who got them."""
        if self._untold is None:
            return
        sample, lag, samples = self._untold
        self._untold = None
        told = self._alerts(context).send(self.stream.name, sample, lag, samples, self.stream.lag.limits)
        if told != sample:
            amend(self.hook.control_log.store, told)
        self._tell_of_watch(context, "")

    def _tell_of_watch(self, context: Context, problem: str) -> None:
        """Open the incident that the watch has failed, or close it where there is no problem any more."""
        from airflow_stream_provider.lag.limits import Health
        from airflow_stream_provider.monitoring.incidents import (
            IncidentKind,
            IncidentState,
            Symptom,
            update_incidents,
        )

        ti, name = context["ti"], self.stream.name
        # Without a map index Airflow 3.3 orders what earlier runs left by map index only, and returns any of it.
        before = ti.xcom_pull(task_ids=self.task_id, key=WATCH_INCIDENT, include_prior_dates=True, map_indexes=-1)
        if not problem and not before:
            return
        try:
            known = {IncidentKind.WATCH.value: IncidentState.from_json(before)} if before else {}
        except (KeyError, TypeError, ValueError, AttributeError):
            self.log.warning("What an earlier run said of the watch was left by another version; beginning anew.")
            known = {}
        symptom = Symptom(Health.FAIL if problem else Health.PASS, problem)
        now = time.time()
        sample = LagSample(now, incidents=update_incidents(name, known, {IncidentKind.WATCH: symptom}, now))
        sample = self._alerts(context).send(name, sample, None, (), self.stream.lag.limits)
        state = sample.incidents[IncidentKind.WATCH]
        over = state.incident is None and not state.acknowledged
        ti.xcom_push(key=WATCH_INCIDENT, value={} if over else state.to_json())

    @contextlib.contextmanager
    def _never_failing(self) -> Iterator[None]:
        """Log what goes wrong in telling people; it must not take the place of how the try itself ended."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - as said
            says = str(error) if isinstance(error, StreamError) else type(error).__name__
            self.log.error("People could not be told; the next look tries again: %s", says)

    def _alerts(self, context: Context) -> Alerts:
        # Imported here: parsing a DAG file needs no notifiers.
        from airflow_stream_provider.monitoring.recipients import ImportedRecipient

        in_yaml = [ImportedRecipient(each.call, each.arguments) for each in self.stream.notify]
        return Alerts(in_yaml if self.notify is None else self.notify, context, self._links)

    def _measure(self, snapshot: Snapshot) -> LagLook:
        """Measure the lag; without the cluster's connection, whose absence must not hide the lag."""
        from airflow_stream_provider.hooks.connections import kafka_extra
        from airflow_stream_provider.lag.reader import measure_sources
        from airflow_stream_provider.lag.targets import stream_sources
        from airflow_stream_provider.lag.topic_ids import note
        from airflow_stream_provider.monitoring.metrics import emit

        kafka = self.stream.kafka or ""
        try:
            spec = self.stream
            store = self.hook.control_log.store
            sources = partial(stream_sources, spec.name, spec.control, snapshot.state, snapshot.heartbeats, store)
            report = measure_sources(kafka, kafka_extra(kafka), sources, self.stream.lag.limits.moments)
        except StreamError as error:
            self.log.warning("The lag of %s cannot be measured now: %s", self.stream.name, error)
            return LagLook.failed(error)
        try:
            note(store, report)
        except StreamError as error:
            self.log.warning("The ids of the topics of %s cannot be noted now: %s", self.stream.name, error)
        emit(self.stream.name, report)
        return LagLook.of(report)

    def _links(self) -> Mapping[str, str]:
        with contextlib.suppress(StreamError):
            held = self.hook.control_log.state.holding_deployment
            if held is not None:
                return self.hook.links(held.id)
        return {}


class Alerts:
    """Sends the alerts that recipients have not received yet.

    :param recipients: see `named`; every alert is also written to the log, as the recipient `log`.
    :param context: of the task, for the templates of notifiers.
    :param links: called only when there is something to send.
    """

    def __init__(
        self, recipients: Sequence[Any], context: Mapping[str, Any], links: Callable[[], Mapping[str, str]]
    ) -> None:
        from airflow_stream_provider.monitoring.folder_alerts import write_to_log
        from airflow_stream_provider.monitoring.recipients import named

        self._recipients: dict[str, Any] = {"log": write_to_log} | named(recipients)
        self._context = context
        self._links = links

    def send(
        self, stream: str, sample: LagSample, lag: LagLook | None, samples: Sequence[LagSample], limits: LagLimits
    ) -> LagSample:
        """Send what is due, and return the sample with what was delivered; the rest is sent at the next look."""
        from airflow_stream_provider.monitoring.alert import pending_alerts
        from airflow_stream_provider.monitoring.delivery import deliver
        from airflow_stream_provider.monitoring.incidents import Incident

        failing: set[str] = set()
        for alert, names in pending_alerts(stream, sample.incidents, sample.at, self._recipients):
            full = self._completed(alert, lag, samples, limits)
            # A recipient that missed the end of an incident must not get the opening of the next one before it.
            delivered = deliver(full, {n: self._recipients[n] for n in names if n not in failing}, self._context)
            failing.update(set(names) - delivered)
            state = sample.incidents[alert.kind].acknowledge(
                Incident(alert.incident, alert.since), delivered, open=alert.open
            )
            sample = replace(sample, incidents={**sample.incidents, alert.kind: state})
        return sample

    def _completed(self, alert: Alert, lag: LagLook | None, samples: Sequence[LagSample], limits: LagLimits) -> Alert:
        from airflow_stream_provider.monitoring.incidents import Incident, IncidentKind
        from airflow_stream_provider.monitoring.lag_alert import lag_alert

        links = self._links()
        if alert.kind != IncidentKind.LAG:
            return replace(alert, links=links)
        look = lag or LagLook(alert.at, None)
        incident = Incident(alert.incident, alert.since)
        return lag_alert(alert.stream, look, samples, limits, open=alert.open, incident=incident, links=links)
