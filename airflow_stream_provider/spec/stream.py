"""A user's description of a stream: one YAML file, checked field by field before anything is touched."""

from __future__ import annotations

import json
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)

from airflow_stream_provider.clusters import (
    refuse_secret_arguments,
    refuse_secret_conf,
    refuse_secret_environment,
    refuse_secret_values,
)
from airflow_stream_provider.lag.limits import BAD, LagLimits
from airflow_stream_provider.lag.report import Alarm, Ceilings, Verdict
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.releases.address import StorageAddress
from airflow_stream_provider.spec.configured import watch_seconds
from airflow_stream_provider.spec.fields import (
    ConnectionId,
    ControlUrl,
    Count,
    Seconds,
    StorageUrl,
    StreamName,
    Text,
    TopicAddress,
    VariableName,
    Version,
    Word,
    as_sentence,
    check_cron,
    check_decided_conf,
)
from airflow_stream_provider.spec.yaml_file import YamlFile

# A task sees a driver silent for two leases and then, on a machine that the cluster has lost, for two leases and a
# pause: less than the 900 s that it may wait (`StreamOperator.WAIT_SECONDS`), or such a driver could never be fenced.
LOST_SECONDS = 840.0


class Strategy(StrEnum):
    """How a new release takes the place of the old one."""

    HANDOVER = "handover"
    RESTART = "restart"

    @property
    def description(self) -> str:
        """One sentence for the form."""
        return _STRATEGIES[self]


_STRATEGIES = {
    Strategy.HANDOVER: "The new release is warm before the old one stops; needs room for two on the cluster.",
    Strategy.RESTART: "The old release stops first, then the new one comes up: minutes without output, room for one.",
}


class _Part(BaseModel):
    # The input is never part of an error: it may hold a password.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class UpgradeSpec(_Part):
    """How upgrades go. Durations are seconds or text such as ``10m``; the other limits are those of Policy.

    :param strategy: `handover`, or `restart`: stop first, then submit; for a cluster without room for two.
    :param soak: how long, at least, the new release is judged before the upgrade succeeds.
    :param keep_previous: how long after the hand-over the old release stays warm.
    :param approval: true: a person approves between rehearsal and hand-over; false: only where the judgement is in
        doubt.
    :param approvers: user ids of those who may; empty: everybody whom Airflow lets answer.
    :param approval_timeout: without an answer by then it is a no, and the new release is ended.
    :param free_arguments: true: the form may say other arguments of the script.
    :param on_change: true: the watch starts an upgrade when this file or a file of the release has changed.
    :param refresh: auto: before the driver's heap is full, or a token of it ends, the watch starts an upgrade to the
        release that runs.
    :param schedule: a cron expression in UTC, such as ``0 4 * * 0``: an upgrade to what this file says.
    :param fence_by_ledger: true: the sinks' ledger (`lag.ledger`) refuses a driver on a lost machine, which is not
        waited for. Only where all is written through such sinks.
    """

    strategy: Strategy = Strategy.HANDOVER
    soak: Seconds = 600.0
    keep_previous: Seconds = 1800.0
    approval: bool = False
    approvers: tuple[Text, ...] = ()
    approval_timeout: Annotated[Seconds, Field(ge=60)] = 3600.0
    free_arguments: bool = False
    on_change: bool = False
    refresh: Literal["auto"] | None = None
    schedule: Annotated[Text, AfterValidator(check_cron)] | None = None
    rehearse_batches: Count = Policy.rehearse_batches
    rehearse_seconds: Seconds = Policy.rehearse_seconds
    state_limit_bytes: Count = Policy.state_limit_bytes
    foreach_batch_safe: bool = Policy.foreach_batch_safe
    boundary_seconds: Seconds = Policy.boundary_seconds
    lease_seconds: Annotated[Seconds, Field(ge=5)] = Policy.lease_seconds
    pause_seconds: Seconds = Policy.pause_seconds
    take_back_seconds: Annotated[Seconds, Field(ge=1)] = Policy.take_back_seconds
    fence_by_ledger: bool = False

    @model_validator(mode="after")
    def _a_lost_driver_is_fenced(self) -> Self:
        found = 4 * self.lease_seconds + self.pause_seconds
        if found > LOST_SECONDS:
            raise ValueError(
                f"four lease_seconds and pause_seconds are {found:g} s together: make them at most {LOST_SECONDS:g} s, "
                "or no task waits long enough to fence a driver on a machine that the cluster has lost."
            )
        return self

    def policy(self, changed_checkpoints: tuple[str, ...] = (), *, no_way_back: bool = False) -> Policy:
        """Return the drivers' policy."""
        runbook_only = {"strategy", "soak", "keep_previous", "free_arguments"}
        runbook_only |= {"approval", "approvers", "approval_timeout", "on_change", "refresh", "schedule"}
        runbook_only |= {"fence_by_ledger"}
        found = self.model_dump(exclude=runbook_only)
        return Policy(**found, changed_checkpoints=changed_checkpoints, no_way_back=no_way_back)


class LagSpec(_Part):
    """How far the stream may be behind Kafka; a limit that is not set is not judged.

    :param max_records: records that a query may be behind.
    :param max_seconds: age of its oldest record that is not committed.
    :param commit_age: time since its last commit, while records of that age wait.
    :param retention: how long before Kafka deletes unread records people are told.
    :param transaction: how long a transaction may hide records; default: a minute beyond its own timeout.
    :param verdicts: Burrow's verdicts that are bad, of WARN, STOP, STALL, REWIND.
    :param alarms: alarms that are bad.
    :param ledger: Airflow connection of the sink's database: measure by what the sink holds; default: the
        checkpoints.
    """

    max_records: Count | None = None
    max_seconds: Seconds | None = None
    commit_age: Seconds | None = None
    retention: Seconds = Ceilings.retention
    transaction: Seconds | None = None
    verdicts: tuple[Verdict, ...] = BAD
    alarms: tuple[Alarm, ...] = tuple(Alarm)
    ledger: ConnectionId | None = None

    @property
    def limits(self) -> LagLimits:
        """The limits of sensors, watch and command line."""
        ceilings = Ceilings(self.commit_age, self.retention, self.transaction)
        return LagLimits(
            self.max_records, self.max_seconds, verdicts=self.verdicts, alarms=self.alarms, ceilings=ceilings
        )


class WatchSpec(_Part):
    """How the stream is watched.

    :param schedule: how often it is looked at; null: never; unset: the option `watch_seconds` of `[streams]`.
    :param for_at_least: how long the lag must be beyond its limits before people are told, and within them before
        it is over.
    """

    schedule: Annotated[Seconds, Field(ge=5)] | None = Field(default_factory=watch_seconds)
    for_at_least: Seconds = 120.0


class NotifySpec(_Part):
    """The way to tell people.

    :param call: class of an Airflow notifier, or a function marked by `@takes_alerts`.
    :param arguments: what it is given; no secrets.
    """

    call: Annotated[Text, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")]
    arguments: dict[str, Any] = Field(default_factory=dict)

    @field_validator("arguments")
    @classmethod
    def _no_secrets_in_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            json.dumps(arguments, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"a value cannot be kept as JSON ({error}): put it in quotes") from None
        return dict(as_sentence(refuse_secret_values)(arguments))


class StreamSpec(_Part):
    """A stream as its YAML describes it.

    :param name: a-z, 0-9, _ and -; the stream's folder or topic in the control root.
    :param application: a .py file in the folder that holds the folder of the YAML files, where relative paths
        start.
    :param version: a label of letters, digits, _ . + and -.
    :param cluster: Airflow connection of the Spark cluster.
    :param control: control root: ``file:///FOLDER``, which Airflow and all drivers mount, or
        ``kafka://CONNECTION/PREFIX``.
    :param kafka: Airflow connection of Kafka; default: none, and lag is not measured.
    :param storage: where releases are stored: ``file://``, ``s3a://``, ``hdfs://``, ``abfss://``, ``gs://``;
        default: the control folder.
    :param storage_connection: Airflow connection with its credentials; default: those of Airflow's environment.
    :param arguments: of the script.
    :param py_files: modules, packages as .zip, or files that the script reads: they are beside it in every driver.
    :param conf: Spark conf of the driver and its executors; no secrets.
    :param environment: environment variables of the driver and its executors; no secrets.
    :param upgrade: how upgrades go.
    :param lag: how far the stream may be behind.
    :param offsets_group: consumer group that committed batches are reported to; default: none.
    :param watch: how the stream is watched.
    :param notify: who is told; default: only the task's log.
    """

    name: StreamName
    application: Text
    version: Version
    cluster: ConnectionId
    control: ControlUrl
    kafka: ConnectionId | None = None
    storage: StorageUrl | None = None
    storage_connection: ConnectionId | None = None
    arguments: tuple[Word, ...] = ()
    py_files: tuple[Text, ...] = ()
    conf: dict[str, Word] = Field(default_factory=dict)
    environment: dict[VariableName, Word] = Field(default_factory=dict)
    upgrade: UpgradeSpec = UpgradeSpec()
    lag: LagSpec = LagSpec()
    offsets_group: Text | None = None
    watch: WatchSpec = WatchSpec()
    notify: tuple[NotifySpec, ...] = ()
    _source: Path = PrivateAttr(default=Path("streams/stream.yaml"))

    @field_validator("conf")
    @classmethod
    def _sound_conf(cls, conf: dict[str, str]) -> dict[str, str]:
        check_decided_conf(conf)
        return dict(as_sentence(refuse_secret_conf)(conf))

    @field_validator("environment")
    @classmethod
    def _no_secrets_in_environment(cls, environment: dict[str, str]) -> dict[str, str]:
        if any("\0" in value for value in environment.values()):
            raise ValueError("a value holds a zero byte")
        return dict(as_sentence(refuse_secret_environment)(environment))

    @field_validator("arguments")
    @classmethod
    def _no_secrets_in_arguments(cls, arguments: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(as_sentence(refuse_secret_arguments)(arguments))

    @model_validator(mode="after")
    def _releases_have_a_place(self) -> Self:
        if self.storage is None and TopicAddress.parse(self.control) is not None:
            raise ValueError(
                "control is in Kafka, and storage is not set: releases need a place. Set it, such as "
                "s3a://bucket/prefix, or file:///a/folder that Airflow and all drivers mount; see docs/storage.md."
            )
        return self

    @model_validator(mode="after")
    def _the_connection_is_used(self) -> Self:
        if self.storage_connection and (self.storage is None or StorageAddress.parse(self.storage).is_folder):
            raise ValueError("storage_connection is set, but a folder needs none: leave it out, or set `storage`.")
        if self.storage and StorageAddress.parse(self.storage).scheme == "hdfs" and not self.storage_connection:
            raise ValueError("storage is hdfs://, and storage_connection is not set: name the connection of WebHDFS.")
        return self

    @model_validator(mode="after")
    def _a_ledger_is_used(self) -> Self:
        if self.lag.ledger and not self.kafka:
            raise ValueError("lag.ledger is set, and kafka is not: name the connection of the Kafka that is read.")
        if self.upgrade.fence_by_ledger and not self.lag.ledger:
            raise ValueError(
                "upgrade.fence_by_ledger is set, and lag.ledger is not: name the connection of the sink's database."
            )
        return self

    @property
    def source(self) -> Path:
        """The YAML file."""
        return self._source

    @property
    def root(self) -> Path:
        """The folder that all files of a release are in."""
        return self._source.parent.parent

    def path(self, name: str) -> Path:
        """Return where a file that the YAML or the form names is; it need not be there, nor in `root`."""
        return self.root / name

    def policy(self, changed_checkpoints: tuple[str, ...] = (), *, no_way_back: bool = False) -> Policy:
        """Return the drivers' policy."""
        found = self.upgrade.policy(changed_checkpoints, no_way_back=no_way_back)
        # People who are told of a lag then do not hear of a loss before.
        waits = Policy.loss_seconds if self.lag.max_seconds is None else self.lag.max_seconds
        ledger = self.lag.ledger if self.upgrade.fence_by_ledger else None
        return replace(found, offsets_group=self.offsets_group or "", loss_seconds=waits, ledger=ledger or "")

    def chosen_strategy(self, given: str) -> Strategy:
        """Return the strategy of an upgrade.

        :param given: that the form chooses; empty: the YAML's.
        :raises SpecError: there is none of that name, or it is not for the form to choose.
        """
        declared = self.upgrade.strategy
        try:
            strategy = Strategy(given or declared)
        except ValueError:
            names = " and ".join(each.value for each in Strategy)
            raise SpecError(
                f"There is no strategy {given!r:.80}.", next_step=f"There are {names}: trigger again with one."
            ) from None
        if strategy is not declared and self.upgrade.approval:
            raise SpecError(
                f"The strategy is {strategy.value}, and {self.source.name} says {declared.value}. "
                "With `approval` the form does not choose it.",
                next_step=f"Trigger again with {declared.value}, or change upgrade.strategy there.",
            )
        return strategy


def load_spec(path: str | Path) -> StreamSpec:
    """Read one stream's YAML.

    :raises SpecError: the file cannot be used; the message names file, line and field, and what to write instead.
    """
    path = Path(path)
    file = YamlFile.read(path)
    try:
        spec = StreamSpec.model_validate(file.fields)
    except ValidationError as error:
        # Not chained: pydantic's own text quotes what was written.
        raise file.refuse(error, StreamSpec)[0] from None
    spec._source = path.absolute()
    return spec
