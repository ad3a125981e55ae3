"""The types of fields in a stream's YAML: durations, counts, texts, names, and values that become JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from airflow_stream_provider.control.root import local_folder
from airflow_stream_provider.control.topic import check_prefix
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.ids import check_stream_name, check_version
from airflow_stream_provider.releases.address import StorageAddress

# An Airflow connection whose id can stand in a URL as it is.
_CONNECTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
_OBJECT_STORES = ("s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "az")


@dataclass(frozen=True)
class TopicAddress:
    """A control URL in Kafka.

    :param connection: id of the Airflow connection.
    :param prefix: of the topics' names: the log of the stream `orders` is in ``PREFIX.orders``.
    """

    connection: str
    prefix: str

    @classmethod
    def parse(cls, url: str) -> TopicAddress | None:
        """Return the address in a control URL such as ``kafka://kafka_default/streams``; None: it is not in Kafka.

        :raises SpecError: it begins like one, and is none.
        """
        parts = urlsplit(url)
        if parts.scheme != "kafka":
            return None
        prefix = parts.path.removeprefix("/")
        if not _CONNECTION.fullmatch(parts.netloc) or "/" in prefix or parts.query or parts.fragment:
            # Not quoted: somebody may have written a user and a password.
            raise SpecError(
                "The control URL is not kafka://CONNECTION/PREFIX.",
                next_step="Name an Airflow connection of type kafka, and a prefix for the topics, of letters, digits, "
                "'.', '_' and '-': kafka://kafka_default/streams. Brokers and credentials belong into the connection.",
            )
        check_prefix(prefix)
        return cls(parts.netloc, prefix)


def check_control_url(url: str) -> None:
    """Check a control URL, without asking anything outside this process.

    :raises SpecError: no control log can live there.
    """
    scheme = urlsplit(url).scheme
    if scheme in _OBJECT_STORES:
        raise SpecError(
            f"No control log can live on {scheme}:, because not every store that is called so creates an object "
            "exclusively, and S3A of Hadoop 3.4.1 lets ten of ten writers win.",
            next_step="Use kafka://CONNECTION/PREFIX, or a mounted folder; checkpoints and releases may be on "
            f"{scheme}:. See docs/control.md.",
        )
    if TopicAddress.parse(url) is None:
        local_folder(url)


_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+|\d+(?:\.\d+)?")
# GROUP:NAME:VERSION, as in spark.jars.packages.
PACKAGE = re.compile(r"[^:\s]+:(?P<name>[^:\s]+):(?P<version>[^:\s]+)")
# Something of an address, which no connection id of a person's has.
_ADDRESS = re.compile(r"[a-z0-9+-]+://.*|[^/]+:\d+(?:,.*)?|local\[.*", re.IGNORECASE | re.DOTALL)
# By Spark's setting, what decides it here.
_DECIDED = {"spark.master": "the connection in `cluster`", "spark.submit.deployMode": "this provider"}
_VARIABLE = re.compile(r"(?!AIRFLOW_)[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)


def seconds(value: Any) -> Any:
    """Return a duration such as ``90s``, ``10m``, ``1h30m`` or a plain number, in seconds."""
    if isinstance(value, str) and _DURATION.fullmatch(value.strip()):
        return sum(float(n) * _UNITS[unit] for n, unit in re.findall(r"(\d+(?:\.\d+)?)([smhd]?)", value))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("is not a duration: write it like 90s, 10m or 1h30m")
    # Not float(value): of an integer with hundreds of digits that is an OverflowError.
    return value


def check_cron(expression: str) -> str:
    """Return a cron expression, or a preset such as ``@weekly``, that Airflow takes.

    :raises ValueError: it is none, or never comes due.
    """
    # Imported here: hardly any YAML has one.
    from airflow.exceptions import AirflowTimetableInvalid
    from airflow.timetables.base import TimeRestriction
    from airflow.timetables.trigger import CronTriggerTimetable

    try:
        timetable = CronTriggerTimetable(expression, timezone="UTC")
        timetable.validate()
        # 31 February is a valid expression: only the scheduler's log would say that the DAG never runs.
        no_start = TimeRestriction(None, None, catchup=False)
        timetable.next_dagrun_info(last_automated_data_interval=None, restriction=no_start)
    except (AirflowTimetableInvalid, ValueError):
        raise ValueError(
            'is no cron expression that comes due: write it like "0 4 * * 0", Sunday at 4:00 UTC'
        ) from None
    return expression


def check_variable(name: str) -> None:
    """Raise SpecError unless this is the name of an environment variable that a stream may set."""
    if not _VARIABLE.fullmatch(name):
        raise SpecError(
            f"{name!r} cannot be set as an environment variable.",
            next_step="Write a name of letters, digits and _. Those that begin with AIRFLOW_ belong to Airflow.",
        )


def _words(value: Any) -> Any:
    # A YAML file has only texts here; in Python, 5 and True are what a person writes.
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (int, float)) else value


def _connection_id(value: str) -> str:
    if _ADDRESS.fullmatch(value):
        raise ValueError(
            "is an address, and not the id of an Airflow connection: put the address into a connection "
            "(`airflow connections add`), and write its id here, such as spark_default"
        )
    return value


def packages_in(text: str) -> list[str]:
    """Return what a list that is separated by commas names, as spark.jars.packages does."""
    return [words for each in text.split(",") if (words := each.strip())]


def no_packages(conf: Mapping[str, str]) -> list[str]:
    """Return a sentence on each entry of spark.jars.packages that is no package."""
    entries = packages_in(conf.get("spark.jars.packages", ""))
    return [
        f"{words!r:.200} in spark.jars.packages is no package." for words in entries if not PACKAGE.fullmatch(words)
    ]


NAME_A_PACKAGE = "Write GROUP:NAME:VERSION, several separated by commas."


def check_decided_conf(conf: Mapping[str, str]) -> None:
    """Raise ValueError where Spark's conf sets what is not for it to say."""
    for name, by in _DECIDED.items():
        if name in conf:
            raise ValueError(f"{name} has no effect, as {by} decides it: leave it out")


def as_sentence(check: Any) -> Any:
    """Turn the SpecError of a check into what pydantic collects; the file and the line are added to it later."""

    def checked(value: Any) -> Any:
        try:
            check(value)
        except SpecError as error:
            raise ValueError(f"{error.message} {error.next_step}".strip()) from None
        return value

    return checked


# Dates and times are made of durations, and 64 bits hold what Kafka and the state can count.
Seconds = Annotated[float, BeforeValidator(seconds), Field(ge=0, le=3650 * 86400)]
Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
Text = Annotated[str, Field(min_length=1)]
ConnectionId = Annotated[Text, AfterValidator(_connection_id)]
Word = Annotated[str, BeforeValidator(_words)]
VariableName = Annotated[str, AfterValidator(as_sentence(check_variable))]
StreamName = Annotated[Text, AfterValidator(as_sentence(check_stream_name))]
Version = Annotated[Text, AfterValidator(as_sentence(check_version))]
ControlUrl = Annotated[Text, AfterValidator(as_sentence(check_control_url))]
StorageUrl = Annotated[Text, AfterValidator(as_sentence(StorageAddress.parse))]
