"""Audit the Kafka or the Spark of a stream: fail, or warn, by how bad it is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, Context

from airflow_stream_provider.audit import AuditReport, Requirements, Severity, Waiver
from airflow_stream_provider.hooks.failing import failing_without_retry
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError

if TYPE_CHECKING:
    from airflow_stream_provider.spec.stream import StreamSpec


class AuditFailed(StreamError):
    """An audit found what must not be; `fields["findings"]` has them."""


class AuditTask(BaseOperator):
    """The base of the audits: it logs what was found, and fails by how bad that is."""

    template_fields: Sequence[str] = ("fail_on",)
    ui_color = "#e6f3f8"

    def __init__(self, *, fail_on: str = "high", waivers: Sequence[Waiver] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.fail_on = fail_on
        self.waivers = tuple(waivers)

    def execute(self, context: Context) -> dict[str, Any]:
        """Audit, warn, and fail if it is bad enough."""
        with failing_without_retry():
            severity = Severity.of(self.fail_on)
            report = self._audit()
        failing = report.failing(severity)
        for finding in report.findings:
            self.log.log(40 if finding in failing else 30, "%s", finding)
        for waiver in report.expired:
            self.log.warning("This waiver has expired and counts as none: %s.", waiver)
        self.log.info("%s.", report)
        if failing:
            # Raising would lose the return value.
            context["ti"].xcom_push(key="return_value", value=report.to_json())
            worst = "; ".join(str(finding) for finding in failing[:3])
            more = f"; and {len(failing) - 3} more" if len(failing) > 3 else ""
            raise AuditFailed(
                f"{len(failing)} findings of severity {severity.label} or worse: {worst}{more}.",
                next_step="Run the commands of the task's XCom, waive what has to stay, or give a higher fail_on.",
                findings=[finding.to_json() for finding in failing],
            )
        return report.to_json()

    @abstractmethod
    def _audit(self) -> AuditReport:
        """Return the report."""


class KafkaTopicAuditOperator(AuditTask):
    """Check that Kafka would keep what a stream has not read, and what it has written: see docs/audit.md.

    Looks only; nothing is created or changed. Needs DESCRIBE and DESCRIBE_CONFIGS on the topics, `__consumer_offsets`,
    `__transaction_state` and the cluster, and DESCRIBE on the transactional ids of the writers.

    :param stream: the stream, as read by `load_spec`. Its YAML names Kafka's connection, and its own record the topics
        that it reads and the options of its Kafka sources and sinks. Or else
    :param conn_id: Airflow connection of type `kafka`, where there is no stream; default: `kafka_default`.
    :param topics: names; with a stream, names that are audited besides, such as what it writes to. (templated)
    :param fail_on: fail when there is a finding of this severity or a worse one: info, low, medium, high, critical.
        A setting that cannot be read has the severity of its check. Milder findings, settings that no broker knows, and
        what is waived are only logged as warnings. (templated)
    :param outage: the longest planned outage of the stream, in seconds.
    :param catch_up: seconds in which it then reads what has waited; default: as long as the outage.
    :param compacted: the topics are meant to keep the last record of each key only.
    :param producer: declared settings of the producers, by Kafka's names, such as ``{"acks": "all"}``.
    :param source: declared options of the stream's Kafka source, such as ``{"failOnDataLoss": "true"}``; default: those
        in the stream's record.
    :param sink: declared options of the stream's Kafka sink; default: those in the stream's record.
    :param waivers: findings that are accepted, each with a reason and until a day.

    XCom: the report (`at`, `topics`, `findings`, `held`, `expired_waivers`), also when the task fails.
    """

    template_fields: Sequence[str] = ("topics", "fail_on")

    def __init__(
        self,
        *,
        stream: StreamSpec | None = None,
        conn_id: str = "",
        topics: Sequence[str] = (),
        outage: float | None = None,
        catch_up: float | None = None,
        compacted: bool = False,
        producer: Mapping[str, Any] | None = None,
        source: Mapping[str, Any] | None = None,
        sink: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.conn_id = _kafka_of(stream, conn_id)  # raises while the DAG is parsed
        self.topics = topics
        self.requirements = Requirements(outage, catch_up, compacted, producer, source, sink)

    def _audit(self) -> AuditReport:
        from airflow_stream_provider.hooks.audit import audit_kafka, audit_topics
        from airflow_stream_provider.hooks.stream import StreamHook

        topics = [topic for topic in ([self.topics] if isinstance(self.topics, str) else self.topics) if topic]
        if self.stream is None:
            return audit_topics(self.conn_id, topics, self.requirements, self.waivers)
        hook, group = StreamHook.of(self.stream), self.stream.offsets_group or ""
        return audit_kafka(hook, hook.observe(history=False), group, self.requirements, topics, self.waivers)


class SparkAuditOperator(AuditTask):
    """Check that Spark and its cluster would keep a stream running for months: see docs/audit.md.

    Looks only; nothing is changed. It goes by what the driver has recorded and measured, and asks the cluster.

    :param stream: the stream, as read by `load_spec`.
    :param fail_on: fail when there is a finding of this severity or a worse one: info, low, medium, high, critical.
        Milder ones, what nothing tells, and what is waived are only logged as warnings. (templated)
    :param waivers: findings that are accepted, each with a reason and until a day.

    XCom: the report (`at`, `topics`, `findings`, `held`, `expired_waivers`), also when the task fails.
    """

    def __init__(self, *, stream: StreamSpec, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream

    def _audit(self) -> AuditReport:
        from airflow_stream_provider.hooks.audit import audit_spark
        from airflow_stream_provider.hooks.stream import StreamHook

        hook = StreamHook.of(self.stream)
        return audit_spark(hook, hook.observe(history=False), self.waivers)


def _kafka_of(stream: StreamSpec | None, conn_id: str) -> str:
    """Return the Airflow connection of Kafka; raise SpecError if none, or more than one, is named."""
    if stream is None:
        return conn_id or "kafka_default"
    if conn_id:
        raise SpecError(
            f"Both the stream {stream.name} and the connection {conn_id!r} are given to audit.",
            next_step="Give one of them: the stream's YAML names its own connection.",
        )
    if not stream.kafka:
        raise SpecError(
            f"The stream {stream.name} names no Kafka connection, so there is nothing to audit.",
            next_step="Add kafka: CONNECTION_ID to its YAML.",
            stream=stream.name,
        )
    return stream.kafka
