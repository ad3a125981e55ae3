# dags/orders_notify.py
from pathlib import Path

from airflow.providers.pagerduty.notifications.pagerduty import PagerdutyNotifier
from airflow.providers.slack.notifications.slack_webhook import SlackWebhookNotifier
from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import DAG

from airflow_stream_provider.notifications.lag import LagNotifier
from airflow_stream_provider.sensors.lag import KafkaLagSensor
from airflow_stream_provider.spec.stream import load_spec

orders = load_spec(Path(__file__).parent / "streams" / "orders.yaml")

# As in notify.yaml, which has the connections, and the same for the incidents of the watch.
slack = SlackWebhookNotifier(
    slack_webhook_conn_id="slack_default",
    timeout=10,
    text="{{ (alert.stream ~ ': ' ~ alert.text)"
    " | replace('&', '&amp;') | replace('<', '&lt;') | replace('>', '&gt;') }}",
)
# LagNotifier tells that a lag is too large, and not that it is over: resolve it by hand.
pagerduty = PagerdutyNotifier(
    pagerduty_events_conn_id="pagerduty_events_default",
    dedup_key="{{ alert.incident }}",
    severity="error",
    summary="{{ alert.subject }}",
    source="{{ alert.stream }}",
    class_type="{{ alert.kind }}",
    custom_details={"text": "{{ alert.text }}"},
)
mail = SmtpNotifier(
    smtp_conn_id="smtp_default",
    to="on-call@example.org",
    subject="{{ alert.subject }}",
    html_content="{{ alert.html }}",
)

# Fails, and tells all three, when the lag has been beyond the limits of the YAML for five minutes.
with DAG("orders__keeps_up", schedule="@hourly", default_args={"retries": 2}):
    keeps_up = KafkaLagSensor(
        task_id="keeps_up",
        stream=orders,
        for_at_least=300,
        on_failure_callback=LagNotifier(stream=orders, to=[slack, pagerduty, mail]),
    )
