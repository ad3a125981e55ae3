"""The metadata that Airflow reads of this provider, at every start of its command line: import nothing heavy here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_stream_provider import __version__

_NAME = "Spark streams"
_PACKAGE = "airflow_stream_provider"


def get_provider_info() -> dict[str, Any]:
    """Return the provider's metadata in the form of Airflow's provider_info.schema.json."""
    operators = ("adopt", "audit", "check", "lag", "stream", "upgrade", "watch")
    return {
        "package-name": "airflow-stream-provider",
        "name": _NAME,
        "description": "Run Spark Structured Streaming jobs in production: hand-over, roll-back, lag, fencing.",
        "versions": [__version__],
        "integrations": [
            {
                "integration-name": _NAME,
                "external-doc-url": "https://airflow-stream-provider.readthedocs.io/",
                "tags": ["software"],
            }
        ],
        "hooks": [
            {
                "integration-name": _NAME,
                "python-modules": [f"{_PACKAGE}.hooks.connection_types", f"{_PACKAGE}.hooks.stream"],
            }
        ],
        "connection-types": _connection_types(),
        "config": {
            "streams": {
                "description": "Settings of the Spark streams of this Airflow.",
                "options": {
                    "watch_seconds": _option(
                        "Seconds between two looks of the watch at a stream whose YAML has no `watch.schedule`.", "60"
                    ),
                    "delivery_seconds": _option(
                        "Seconds, up to 120, in which a recipient of `notify` must have taken an alert.", "30"
                    ),
                },
            }
        },
        "asset-uris": [
            {
                "schemes": ["stream"],
                "handler": f"{_PACKAGE}.operators.base.sanitize_uri",
                "factory": f"{_PACKAGE}.operators.base.stream_asset",
            }
        ],
        "operators": [
            {"integration-name": _NAME, "python-modules": [f"{_PACKAGE}.operators.{name}" for name in operators]}
        ],
        "sensors": [
            {"integration-name": _NAME, "python-modules": [f"{_PACKAGE}.sensors.{name}" for name in ("lag", "stream")]}
        ],
        "triggers": [
            {
                "integration-name": _NAME,
                "python-modules": [f"{_PACKAGE}.triggers.{name}" for name in ("lag", "lag_event", "stream")],
            }
        ],
        "notifications": [
            f"{_PACKAGE}.notifications.lag.LagNotifier",
            f"{_PACKAGE}.notifications.upgrade.ApprovalNotifier",
            f"{_PACKAGE}.notifications.upgrade.UpgradeNotifier",
        ],
        "cli": [f"{_PACKAGE}.cli.definition.get_streams_cli_commands"],
        "extra-links": [f"{_PACKAGE}.links.stream.SparkUiLink", f"{_PACKAGE}.links.stream.DriverLogLink"],
    }


def _connection_types() -> list[dict[str, Any]]:
    """Return the forms; docs/clusters.md has the fields of clusters, docs/lag.md those of Kafka."""
    one_each = "Separate several masters by commas, in the order of the hosts."
    workers = _field(
        "Hosts of workers", "Hosts and networks, separated by commas; default: the networks of the masters."
    )
    return [
        _form(
            "standalone",
            "spark_standalone",
            "StandaloneHook",
            hidden=("schema",),
            labels={"host": "Masters", "password": "Password, or bearer token without a login"},
            placeholders={"host": "spark://m1:7077,m2:7077", "port": "7077"},
            rest_port=_field("Port of the REST submission API", "Default: 6066.", type=["integer", "null"]),
            rest_url=_field("URL of the REST submission API", f"Default: http://HOST:PORT. {one_each}"),
            master_ui=_field("URL of the masters' web UI", f"Default: http://HOST:8080. {one_each}"),
            worker_hosts=workers,
        ),
        _form(
            "YARN",
            "spark_yarn",
            "YarnHook",
            hidden=("schema", "host", "port", "password"),
            labels={"login": "User as whom drivers run"},
            yarn_resourcemanager_webapp_address=_field(
                "Web addresses of the ResourceManagers", "Such as http://rm1:8088,http://rm2:8088."
            ),
            spark_home=_field("Folder of Spark on every node", "Such as /opt/spark."),
            queue=_field("Queue", "Default: default."),
            python=_field("Python on every node", "Default: python3."),
            worker_hosts=workers,
            principal=_field(
                "Kerberos: principal", "With it, the keytab; without both, YARN believes everybody's name."
            ),
            keytab=_field("Kerberos: keytab", "What `base64 FILE` says of a keytab.", format="password"),
        ),
        _form(
            "Kubernetes",
            "spark_kubernetes",
            "KubernetesHook",
            hidden=("schema", "login"),
            labels={"host": "API server", "password": "Token of a service account"},
            placeholders={"host": "https://HOST:6443"},
            kubernetes_conn_id=_field(
                "Connection of type kubernetes", "It has address and credentials, in place of API server and token."
            ),
            ca_file=_field("Certificates of the API server", "Path on Airflow's machines; default: the system's."),
            namespace=_field("Namespace of drivers and executors"),
            image=_field(
                "Image of drivers", "Such as registry.example/spark-streams:4.0.0. May be in the pod template instead."
            ),
            service_account=_field("Service account of drivers", "May be in the pod template instead."),
            template=_field(
                "Pod template of drivers", "YAML, or the path of a file on Airflow's machines.", format="multiline"
            ),
            ui_url=_field("Address of a driver's Spark UI, for people", "With {namespace} and {pod}."),
            log_url=_field("Address of a driver's log, for people", "With {namespace} and {pod}."),
        ),
        _form(
            "Kafka",
            "kafka_stream",
            "KafkaHook",
            hidden=("schema", "host", "port", "login", "password"),
            **{
                "bootstrap.servers": _field(
                    "Brokers",
                    "Such as k1:9092,k2:9092. More settings, by librdkafka's names, go into the JSON below.",
                ),
                "security.protocol": _field(
                    "Security protocol", "PLAINTEXT (default), SSL, SASL_PLAINTEXT or SASL_SSL."
                ),
                "sasl.mechanism": _field("SASL mechanism", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER."),
                "sasl.username": _field("SASL user"),
                "sasl.password": _field("SASL password", format="password"),
                "ssl.ca.location": _field("Certificates of authorities", "Path on Airflow's machines."),
                "ssl.certificate.location": _field("Client's certificate", "Path on Airflow's machines."),
                "ssl.key.location": _field("Client's key", "Path on Airflow's machines."),
                "ssl.key.password": _field("Password of the client's key", format="password"),
            },
        ),
    ]


def _form(
    name: str,
    conn_type: str,
    hook: str,
    hidden: Sequence[str],
    labels: Mapping[str, str] | None = None,
    placeholders: Mapping[str, str] | None = None,
    **fields: dict[str, Any],
) -> dict[str, Any]:
    return {
        "connection-type": conn_type,
        "hook-class-name": f"{_PACKAGE}.hooks.connection_types.{hook}",
        "hook-name": f"{_NAME}: {name}",
        "ui-field-behaviour": {
            "hidden-fields": list(hidden),
            "relabeling": dict(labels or {}),
            "placeholders": dict(placeholders or {}),
        },
        "conn-fields": fields,
    }


def _field(label: str, description: str = "", **schema: Any) -> dict[str, Any]:
    """Return a field that may be left empty."""
    said = {"description": description} if description else {}
    return {"label": label, **said, "schema": {"type": ["string", "null"], **schema}}


def _option(description: str, default: str) -> dict[str, Any]:
    return {
        "description": description,
        "version_added": None,
        "type": "float",
        "example": None,
        "default": default,
    }
