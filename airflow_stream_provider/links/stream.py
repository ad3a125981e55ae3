"""Links of the stream operators: read from XCom, never over the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

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


class _StreamLink(BaseOperatorLink):
    xcom: ClassVar[str]

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address that the task left, or nothing while it is not known."""
        value: Any = XCom.get_value(key=self.xcom, ti_key=ti_key)
        return str(value or "")


class SparkUiLink(_StreamLink):
    """The Spark UI of the driver that the task works on."""

    name = "Spark UI"
    xcom = key(SPARK_UI)


class DriverLogLink(_StreamLink):
    """The log of the driver that the task works on."""

    name = "Driver log"
    xcom = key(DRIVER_LOG)
