"""Run the demo: a job that runs without a stream is adopted, and upgraded three times under load, each time with a DAG.

Then the output is counted. Where no job can be submitted by hand, the first chapter is a first deployment.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from airflow_stream_provider.checkpoint.read import read
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.heartbeat import DriverPhase
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.monitoring.life import What, life
from demo.environment import DemoEnvironment, create_topics
from demo.history import StepResult, changes, max_holders, result
from demo.lag import LagWatcher, describe_lag
from demo.report import Report, Step, describe, failure_times, steady, timeline_of
from devstack.airflow_api import FINAL
from devstack.audit import Records, count, deliveries, end_offsets, final_totals, wrong_totals
from devstack.commits import CommitWatcher, written_at
from devstack.producer import Producer
from devstack.workload import Total, totals

DAG = "orders__upgrade"
OPERATE = "orders__operate"
RATE = 500  # orders per second: two queries read each, on two cores
SETTLE_SECONDS = 6.0  # between two steps
POLL_SECONDS = 1.0
SHORT_SECONDS = 5.0
FRESH_SECONDS = 5.0  # a driver whose last heartbeat is older does nothing any more
STEP_SECONDS = 600.0
DRAIN_SECONDS = 180.0


@dataclass(frozen=True)
class Chapter:
    """One step of the demo.

    :param name: what it does.
    :param version: version of the release; empty: what runs without a stream is adopted.
    :param arguments: arguments of the release, after those of the stream's YAML.
    :param expected: the result that it must have.
    """

    name: str
    version: str
    arguments: tuple[str, ...]
    expected: StepResult


ADOPTED = Chapter("adopt the running job", "", (), StepResult.ADOPTED)
DEPLOYED = Chapter("deploy release 1", "1", (), StepResult.DEPLOYED)
# Each ends as it does by what the release is, however slow the machine: 3 has another state than the checkpoint, which
# its rehearsal finds; 4 may send no record of more than 64 bytes, which only its sink finds.
UPGRADES = (
    Chapter("upgrade to release 2", "2", ("--vat",), StepResult.HANDED_OVER),
    Chapter("try release 3", "3", ("--vat", "--totals-by", "customer", "country"), StepResult.REFUSED),
    Chapter("upgrade to release 4", "4", ("--vat", "--request-bytes", "64"), StepResult.ROLLED_BACK),
)
# What is told of the stream's life.
TOLD = {
    What.DEPLOYED: "Release {0.version} is started beside what runs.",
    What.STOOD_BY: "Release {0.version} has rehearsed on live data, and stands by.",
    What.REFUSED: "Release {0.version} is refused, and nothing has changed: {0.reason}",
    What.STARTED: "Release {0.version} runs.",
    What.ADOPTED: "Release {0.version} goes on where the old job ended.",
    What.HANDED_OVER: "Release {0.version} has taken over.",
    What.FAILED: "Release {0.version} fails: {0.reason}",
    What.ROLLED_BACK: "Release {0.version} has taken over again.",
    What.REVIVED: "Release {0.version} runs again.",
    What.ABORTED: "It is called off: {0.reason}",
    What.FENCED: "The driver of release {0.version} is confirmed dead: {0.reason}",
}


def _lasts(task: Mapping[str, Any]) -> bool:
    """Whether a task waits, or has run for a while: one that skips itself is of no interest."""
    ran = (
        (datetime.now(UTC) - datetime.fromisoformat(task["start_date"])).total_seconds() if task["start_date"] else 0.0
    )
    return task["state"] == "deferred" or (task["state"] == "running" and ran > SHORT_SECONDS)


@dataclass
class Story:
    """Runs the steps of the demo. Its fields show the progress.

    :param environment: the stream and its Airflow.
    :param say: called with what the demo does now.
    :param tell: called with what has happened.
    :param chapters: the steps; default: all of them, the first one as the environment can.
    :param rate: orders per second.
    :param steps: the results of the finished steps.
    :param running: the step that is running.
    :param step_started: when it was started, in seconds since 1970.
    :param records: the records of the control log so far.
    :param wrong_totals: customers with wrong totals, each with the expected and the found total.
    """

    environment: DemoEnvironment
    say: Callable[[str], None]
    tell: Callable[[str], None]
    chapters: Sequence[Chapter] = ()
    rate: int = RATE
    steps: list[Step] = field(default_factory=list)
    running: Chapter | None = None
    step_started: float = 0.0
    records: list[Record] = field(default_factory=list)
    wrong_totals: dict[str, tuple[Total, Total | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chapters = self.chapters or (ADOPTED if self.environment.cluster else DEPLOYED, *UPGRADES)
        self.watcher = CommitWatcher(self.environment.checkpoints)
        self.lag = LagWatcher(self.environment.spec, self.environment.brokers)
        self.producer = Producer(self.environment.brokers, "orders", self.rate)
        self._log = self.environment.log
        self._told = 0

    def run(self, started: float) -> Report:
        """Run all steps and return the report; see `problems` for what is wrong in it.

        :param started: start of the demo by the monotonic clock, for `seconds_total`.
        :raises StreamError: a step had another result than expected, or did not end in time.
        """
        self.say("creating the topics")
        create_topics(self.environment.brokers)
        self.environment.airflow.wait_for_dag(DAG)
        self.environment.airflow.unpause(DAG)
        with self.watcher, self.lag, contextlib.ExitStack() as stack:
            stack.push(self.producer)  # stopped here; started by what reads first
            for number, chapter in enumerate(self.chapters):
                if number:
                    self._settle()
                if chapter.version:
                    conf = {
                        "version": chapter.version,
                        "arguments": [*self.environment.spec.arguments, *chapter.arguments],
                    }
                    self._run(chapter, DAG, conf)
                else:
                    self._adopt(chapter)
            self.say("stopping the producer and waiting until all orders are read")
            produced = self.producer.stop()
            self._drain()
        self.say("counting the delivered orders")
        records = self._count(produced)
        return Report(
            steps=[describe(step, self.watcher.commits) for step in self.steps],
            steady_seconds=steady(self.steps, self.watcher.commits),
            records=records,
            max_holders=max_holders(self.records),
            seconds_total=round(time.monotonic() - started, 1),
            lag=describe_lag(self.lag.samples, self.steps),
            timeline=timeline_of(self.steps, self.watcher.commits, self._versions()),
        )

    def _versions(self) -> dict[str, str]:
        """Return the version of each driver that has held."""
        of = {r["deployment"]: str(r["release"]["version"]) for r in self.records if r.kind == Kind.DECLARED}
        return {change.to: of[deployment_of(change.to)] for change in changes(self.records)}

    def _adopt(self, chapter: Chapter) -> None:
        """Submit the script as people do who have no such provider, let it read, and adopt it."""
        self.say("submitting the job as it runs without this provider")
        job = self.environment.submit_by_hand()
        queries = self.environment.checkpoints.values()
        started = [folder / "metadata" for folder in queries]
        self._wait("the job to start its queries", lambda: all(map(written_at, started)), STEP_SECONDS)
        self.producer.start()
        commits = [folder / "commits" / "2" for folder in queries]
        self._wait("the job to commit", lambda: all(map(written_at, commits)), STEP_SECONDS)
        self._run(
            chapter, OPERATE, {"operation": "adopt", "job": job, "reason": "our first managed stream", "ask": False}
        )

    def _run(self, chapter: Chapter, dag: str, conf: Mapping[str, Any]) -> None:
        """Trigger a DAG, wait until its run is over, and note what has come of it."""
        self.running, self.step_started = chapter, time.time()
        before = len(self._read())
        run = self.environment.airflow.trigger(dag, conf)

        def ended() -> bool:
            # Not before the first release reads; otherwise it would start with a backlog.
            if self._log.refresh().holder:
                self.producer.start()
            self._tell_events()
            tasks = self.environment.airflow.tasks(dag, run)
            busy = [each["task_display_name"] for each in tasks if _lasts(each)]
            if doing := [*busy, *self._rehearsing()]:
                self.say(": ".join(doing))
            return self.environment.airflow.run_state(dag, run) in FINAL

        self._wait(f"the DAG run {run}", ended, STEP_SECONDS)
        records = self._read()
        during = records[before:]
        found = result(records[:before], during)
        new = changes(records)[len(changes(records[:before])) :]
        self._tell_events()
        self.watcher.look()
        step = Step(chapter.name, self.step_started, time.time(), found, new)
        self.steps.append(step)
        self.running = None
        gaps = describe(step, self.watcher.commits).gap_seconds
        without = f"; seconds without a batch: {', '.join(f'{name} {gap:.2f}' for name, gap in gaps.items())}"
        self.tell(f"{chapter.name}: {found.value}{without if gaps else ''}")
        if found is not chapter.expected:
            raise StreamError(
                f"The result of {chapter.name!r} is {found.value}, expected was {chapter.expected.value}.",
                next_step=f"Read the logs of the run {run} of {dag} in Airflow, and the drivers' logs.",
            )

    def _tell_events(self) -> None:
        """Tell what has happened to the stream since the last call."""
        for event in life(self._read(), self._log.refresh()):
            if event.seq > self._told and event.what in TOLD:
                self.tell(TOLD[event.what].format(event).partition("\n")[0])
        self._told = len(self.records)

    def _rehearsing(self) -> list[str]:
        """Return what the driver that rehearses says of itself."""
        beats = [beat for beat in self._log.heartbeats().values() if time.time() - beat.at < FRESH_SECONDS]
        return [beat.message for beat in beats if beat.phase is DriverPhase.REHEARSING and beat.message][:1]

    def _settle(self) -> None:
        until = time.monotonic() + SETTLE_SECONDS
        self._wait("time to pass", lambda: time.monotonic() > until, 2 * SETTLE_SECONDS)

    def _drain(self) -> None:
        ends = end_offsets(self.environment.brokers, "orders")
        folders = self.environment.checkpoints.values()
        self._wait(
            "every order to be committed",
            lambda: all(read(folder).committed.get("orders") == ends for folder in folders),
            DRAIN_SECONDS,
        )

    def _count(self, produced: int) -> Records:
        brokers = self.environment.brokers
        failures = failure_times(changes(self.records), self.watcher.commits["enrich"])
        records = count(produced, deliveries(brokers, "orders-enriched"), failures)
        self.wrong_totals = wrong_totals(totals(produced), final_totals(brokers, "order-totals"))
        return records

    def problems(self, report: Report) -> list[str]:
        """Return a sentence for each result that must not occur: lost, duplicated or wrong orders, two holders."""
        found = []
        if report.records.lost:
            found.append(f"{report.records.lost} orders were lost.")
        if report.records.duplicated:
            found.append(f"{report.records.duplicated} orders were duplicated without a failure.")
        if report.max_holders != 1:
            found.append(f"{report.max_holders} drivers held the stream at the same time.")
        for customer, (expected, total) in list(self.wrong_totals.items())[:1]:
            found.append(
                f"{len(self.wrong_totals)} customers have wrong totals: {customer} has {total}, expected {expected}."
            )
        return found

    def _read(self) -> list[Record]:
        self.records += self._log.records(len(self.records) + 1)
        return list(self.records)

    def _wait(self, what: str, over: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not over():
            self.producer.check()
            if time.monotonic() > deadline:
                raise StreamError(
                    f"Waited {seconds:.0f} s for {what}.", next_step="Read the logs of Airflow and of the drivers."
                )
            time.sleep(POLL_SECONDS)
