"""A check is a row: name, severity, what is wanted and why, the command that fixes it, and a function of the facts.

The names in braces in a template are replaced by values quoted for a POSIX shell. `{server}` stands for the arguments
with which Kafka's tools reach the cluster, `{cluster}` for the same arguments as `kafka-cluster.sh` names them.
`{pattern}` is the topic as a regular expression, which is what `kafka-topics.sh --topic` expects.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Generic, Protocol, TypeVar

from airflow_stream_provider.audit.facts import BrokerFacts, Facts, NotRead, NotVerifiable, Requirements, Topic
from airflow_stream_provider.kafka.settings import with_ports
from airflow_stream_provider.lifecycle.errors import SpecError

# Replicas that every partition should have.
COPIES = 3

# Kafka's tool writes plans that spread replicas over racks; it never adds a replica. A plan moves whole partitions over
# the network, so a person reads it and chooses the rate.
REASSIGN = (
    "printf %s {topics} | kafka-reassign-partitions.sh {server} --topics-to-move-json-file /dev/stdin "
    "--broker-list {brokers} --generate  # then change the plan to {copies} replicas, and --execute it with --throttle"
)


def topic_setting(key: str, value: str = "{value}") -> str:
    """Return the template of a command that sets a topic's setting.

    :param value: the value, or by default ``{value}``, to be filled in later.
    """
    return (
        f"kafka-configs.sh {{server}} --alter --entity-type topics --entity-name {{topic}} --add-config {key}={value}"
    )


def broker_setting(*settings: str) -> str:
    """Return the template for settings that brokers read only when they start, such as ``a=1``.

    No command of Kafka changes them, and a managed cluster has no server.properties to write to.
    """
    where = "in every broker's server.properties, or in the configuration of the managed cluster; then restart"
    return f"{' '.join(settings)}  # {where} one by one"


def tool_arguments(extra: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the arguments with which Kafka's command line tools reach a connection's cluster.

    For a cluster with TLS or SASL they name a file ``client.properties``, which the person who runs the command must
    have. Reports never contain secrets.

    :param extra: the extra of the Airflow connection.
    """
    server = ("--bootstrap-server", ",".join(with_ports(str(extra.get("bootstrap.servers", "")))))
    plain = str(extra.get("security.protocol", "PLAINTEXT")).upper() == "PLAINTEXT"
    return server if plain else (*server, "--command-config", "client.properties")


def fill_template(template: str, server: Sequence[str], values: Mapping[str, object]) -> str:
    """Return a template's command with its values filled in and quoted for the shell.

    :param server: from `tool_arguments`.
    """
    known = {name: shlex.quote(str(value)) for name, value in values.items()}
    if "topic" in values:
        known.setdefault("pattern", shlex.quote(str(values["topic"]).replace(".", r"\.")))
    # Only kafka-cluster.sh has another name for the option with the client's settings.
    cluster = ["--config" if each == "--command-config" else each for each in server]
    return template.format_map({**known, "server": shlex.join(server), "cluster": shlex.join(cluster)})


def reassigned(topic: Topic, brokers: Iterable[BrokerFacts], copies: int = COPIES) -> dict[str, object]:
    """Return the values for `REASSIGN`.

    :param copies: number of replicas that each partition is to have; default `COPIES`.
    """
    topics = json.dumps({"topics": [{"topic": topic.name}], "version": 1}, separators=(",", ":"))
    return {"topics": topics, "brokers": ",".join(str(broker.id) for broker in brokers), "copies": copies}


class Severity(IntEnum):
    """The severity of a check that does not hold; a larger value is worse."""

    INFO = 1
    LOW = 2
    MEDIUM = 3
    HIGH = 4
    CRITICAL = 5

    @property
    def label(self) -> str:
        """The name of the severity in reports, such as ``high``."""
        return self.name.lower()

    @classmethod
    def of(cls, label: str) -> Severity:
        """Return the severity with a name, in upper or lower case.

        :raises SpecError: there is no severity of this name.
        """
        try:
            return cls[label.upper()]
        except KeyError:
            known = ", ".join(severity.label for severity in cls)
            raise SpecError(f"{label!r} is not a severity.", next_step=f"Use one of {known}.", severity=label) from None


class CheckResult(StrEnum):
    """Why a check is in the report. Checks that hold are only counted.

    BROKEN: the check does not hold. UNREAD: Kafka did not return what the check needs. UNVERIFIABLE: brokers do not
    know what the check needs, and it was not declared.
    """

    BROKEN = "broken"
    UNREAD = "could not read"
    UNVERIFIABLE = "not verifiable"


@dataclass(frozen=True)
class Broken:
    """The fault that a check found.

    :param found: what is wrong, for the report.
    :param values: values for the names in braces in the command that fixes it.
    :param fix: a command to use in place of the check's own; default empty: the check's own.
    """

    found: str
    values: Mapping[str, object] = field(default_factory=dict)
    fix: str = ""


def broken_if(bad: object, found: str, fix: str = "", **values: object) -> Broken | None:
    """Return the fault, or None if the check holds; see `Broken`."""
    return Broken(found, values, fix) if bad else None


class Subject(Protocol):
    """The object of a check: a topic, a broker, the cluster or the clients."""

    @property
    def title(self) -> str:
        """Its name in a finding, such as ``topic orders``."""


S = TypeVar("S", bound=Subject)
Scope = Callable[[Facts, Requirements], Iterable[S]]
Look = Callable[[S, Facts, Requirements], Broken | None]


def flag_off(key: str) -> Look[Any]:
    """Return a look at a setting of a topic or a broker that must not be ``true``."""
    return lambda subject, *_: broken_if(subject.settings.flag(key), f"{key} is true")


def _known(topics: Iterable[Topic]) -> Iterable[Topic]:
    # Topics that could not be read are reported once, by `topic-readable`.
    return (topic for topic in topics if not topic.problem)


TOPICS: Scope[Topic] = lambda facts, _: _known(facts.topics)  # noqa: E731 - a value of the column
"""The audited topics."""
ALL_TOPICS: Scope[Topic] = lambda facts, _: _known((*facts.topics, *facts.internal))  # noqa: E731
"""The audited topics, and `__consumer_offsets` and `__transaction_state`, on which all streams depend."""
NAMED_TOPICS: Scope[Topic] = lambda facts, _: (*facts.topics, *(t for t in facts.internal if not t.missing))  # noqa: E731
"""`ALL_TOPICS` and the topics that cannot be read. An internal topic is left out until Kafka has created it."""
BROKERS: Scope[BrokerFacts] = lambda facts, _: facts.live  # noqa: E731
CLUSTER: Scope[Facts] = lambda facts, _: (facts,)  # noqa: E731
CLIENTS: Scope[Requirements] = lambda _, requirements: (requirements,)  # noqa: E731


@dataclass(frozen=True)
class Finding:
    """A check that does not hold for a subject, or that could not be decided.

    :param check: name of the check.
    :param severity: severity of the check.
    :param result: whether the check does not hold, could not be read, or is not verifiable.
    :param subject: what was examined, such as ``topic orders``.
    :param found: what is wrong, or why the check could not be decided.
    :param wanted: what the check wants.
    :param why: why it matters.
    :param fix: the command that fixes it; empty if the check could not be decided.
    :param waived: the waiver that accepts it, such as ``until 2027-03-01: the test cluster has one broker``; empty if
        there is none.
    """

    check: str
    severity: Severity
    result: CheckResult
    subject: str
    found: str
    wanted: str
    why: str
    fix: str
    waived: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the finding as a JSON object."""
        return {**asdict(self), "severity": self.severity.label, "result": self.result.value}

    def __str__(self) -> str:
        text = f"{self.severity.label.upper()} {self.check}, {self.subject}"
        if self.waived:
            return f"{text}: waived {self.waived}. {self.result.capitalize()}: {self.found}"
        if self.result is not CheckResult.BROKEN:
            return f"{text}: {self.result}. {self.found}"
        return f"{text}: {self.found}; wanted: {self.wanted}. Fix: {self.fix}"


@dataclass(frozen=True)
class Check(Generic[S]):
    """A row in the table of checks.

    :param name: the check's name in reports.
    :param severity: how bad it is if the check does not hold.
    :param scope: returns what it examines; it looks at each.
    :param wanted: what it wants, for the report.
    :param why: why that matters.
    :param fix: template of the command that fixes it; see `fill_template`.
    :param look: returns what is wrong with a subject, or None if the check holds. Raises NotRead or NotVerifiable if
        that cannot be decided.
    """

    name: str
    severity: Severity
    scope: Scope[S]
    wanted: str
    why: str
    fix: str
    look: Look[S]


def findings(
    checks: Iterable[Check[Any]], facts: Facts, requirements: Requirements, held: Counter[str]
) -> Iterator[Finding]:
    """Yield a finding for each subject for which a check does not hold or cannot be decided.

    :param held: counts, by name of the check, the subjects for which it holds; updated here.
    """
    for check in checks:
        for subject in check.scope(facts, requirements):
            fix = ""
            try:
                broken = check.look(subject, facts, requirements)
                if broken is None:
                    held[check.name] += 1
                    continue
                result, found = CheckResult.BROKEN, broken.found
                fix = fill_template(broken.fix or check.fix, facts.server, {**_names(subject), **broken.values})
            except NotRead as error:
                result, found = CheckResult.UNREAD, str(error)
            except NotVerifiable as error:
                result, found = CheckResult.UNVERIFIABLE, str(error)
            yield Finding(check.name, check.severity, result, subject.title, found, check.wanted, check.why, fix)


def _names(subject: Any) -> dict[str, object]:
    if isinstance(subject, Topic):
        return {"topic": subject.name}
    return {"broker": subject.id} if isinstance(subject, BrokerFacts) else {}
