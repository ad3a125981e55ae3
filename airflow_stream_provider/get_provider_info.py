"""The metadata that Airflow reads of this provider, at every start of its command line: import nothing heavy here."""

from __future__ import annotations

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
        "hooks": [{"integration-name": _NAME, "python-modules": [f"{_PACKAGE}.hooks.stream"]}],
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
