"""Audit the durability of topics: fail, or warn, by how bad it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import BaseOperator, Context

from airflow_stream_provider.audit import AuditReport, Requirements, Severity, audit, tool_arguments
from airflow_stream_provider.hooks.connections import kafka_extra
from airflow_stream_provider.hooks.failing import failing_without_retry
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError


class AuditFailed(StreamError):
    """An audit found what must not be; `fields["findings"]` has them."""


class KafkaTopicAuditOperator(BaseOperator):
    """Check that Kafka would keep what a stream has not read, and what it has written: see docs/audit.md.

    Looks only; nothing is created or changed. Needs DESCRIBE and DESCRIBE_CONFIGS on the topics, `__consumer_offsets`,
    `__transaction_state` and the cluster.

    :param conn_id: Airflow connection of type `kafka`.
    :param topics: names. (templated)
    :param fail_on: fail when there is a finding of this severity or a worse one: info, low, medium, high, critical.
        A setting that cannot be read has the severity of its check. Milder findings, and settings that no broker knows,
        are only logged as warnings. (templated)
    :param outage: the longest planned outage of the stream, in seconds.
    :param catch_up: seconds in which it then reads what has waited; default: as long as the outage.
    :param executor_cores: of all executors together.
    :param compacted: the topics are meant to keep the last record of each key only.
    :param producer: declared settings of the producers, by Kafka's names, such as ``{"acks": "all"}``.
    :param source: declared options of the stream's Kafka source, such as ``{"maxOffsetsPerTrigger": "100000"}``.
    :param sink: declared options of the stream's Kafka sink.

    XCom: the report (`at`, `topics`, `findings`, `held`), also when the task fails.
    """

    template_fields: Sequence[str] = ("topics", "fail_on")
    ui_color = "#e6f3f8"

    def __init__(
        self,
        *,
        conn_id: str = "kafka_default",
        topics: Sequence[str],
        fail_on: str = "high",
        outage: float | None = None,
        catch_up: float | None = None,
        executor_cores: int | None = None,
        compacted: bool = False,
        producer: Mapping[str, Any] | None = None,
        source: Mapping[str, Any] | None = None,
        sink: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.conn_id = conn_id
        self.topics = topics
        self.fail_on = fail_on
        self.requirements = Requirements(outage, catch_up, executor_cores, compacted, producer, source, sink)

    def execute(self, context: Context) -> dict[str, Any]:
        """Audit, warn, and fail if it is bad enough."""
        with failing_without_retry():
            severity = Severity.of(self.fail_on)
            report = self._audit()
        failing = report.failing(severity)
        for finding in report.findings:
            self.log.log(40 if finding in failing else 30, "%s", finding)
        self.log.info("%s.", report)
        if failing:
            # Raising would lose the return value.
            context["ti"].xcom_push(key="return_value", value=report.to_json())
            worst = "; ".join(str(finding) for finding in failing[:3])
            more = f"; and {len(failing) - 3} more" if len(failing) > 3 else ""
            raise AuditFailed(
                f"{len(failing)} findings of severity {severity.label} or worse: {worst}{more}.",
                next_step="Run the commands of the task's XCom, or give a higher fail_on.",
                findings=[finding.to_json() for finding in failing],
            )
        return report.to_json()

    def _audit(self) -> AuditReport:
        # Here: a DAG file that is parsed needs no Kafka client.
        from airflow_stream_provider.kafka.client import KafkaClient

        topics = [topic for topic in ([self.topics] if isinstance(self.topics, str) else self.topics) if topic]
        if not topics:
            raise SpecError("No topic was given to audit.", next_step="Give topics=, a list of names.")
        extra = kafka_extra(self.conn_id)
        with KafkaClient(self.conn_id, extra) as client:
            return audit(client, topics, self.requirements, tool_arguments(extra))
