"""Links of the stream operators: read from XCom, never over the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from airflow.sdk import BaseOperatorLink
from airflow.sdk.execution_time.xcom import XCom

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

SPARK_UI = "Spark UI"
DRIVER_LOG = "driver log"


def key(label: str) -> str:
    """XCom key under which an operator leaves the address of a link."""
    return "link_" + label.lower().replace(" ", "_")


def web_address(value: object) -> str:
    """Return the value if it is an address of http or https without userinfo, else an empty text."""
    text = str(value or "")
    try:
        parts = urlsplit(text)
    except ValueError:
        return ""
    harmless = text.isprintable() and not any(sign in text for sign in " \\\"'<>")
    return text if parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc and harmless else ""


class _StreamLink(BaseOperatorLink):
    xcom: ClassVar[str]

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address that the task left, or nothing while it is not known.

        Only web addresses are links: the log of a local driver is a path, and a driver says itself where its UI is.
        """
        value: Any = XCom.get_value(key=self.xcom, ti_key=ti_key)
        return web_address(value)


class SparkUiLink(_StreamLink):
    """The Spark UI of the driver that the task works on."""

    name = "Spark UI"
    xcom = key(SPARK_UI)


class DriverLogLink(_StreamLink):
    """The log of the driver that the task works on."""

    name = "Driver log"
    xcom = key(DRIVER_LOG)
