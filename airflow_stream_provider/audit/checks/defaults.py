"""Check the brokers' defaults for topics that will be created later, including the internal ones."""

from __future__ import annotations

from airflow_stream_provider.audit.check import BROKERS, Broken, Check, Severity, check
from airflow_stream_provider.audit.facts import BrokerFacts, Facts, NotRead, Requirements
from airflow_stream_provider.audit.fix import COPIES, broker_setting


@check(
    "broker-racks",
    Severity.MEDIUM,
    BROKERS,
    wanted="broker.rack of every broker",
    why="Without it Kafka may place all replicas of a partition in one rack or zone, which can fail as a whole "
    "(Amazon MSK sets it to the zone).",
    fix=broker_setting("broker.rack=RACK"),
)
def broker_racks(broker: BrokerFacts, facts: Facts, requirements: Requirements) -> Broken | None:
    """Check that broker.rack is set."""
    return None if broker.rack else Broken("broker.rack is not set")


@check(
    "auto-create",
    Severity.MEDIUM,
    BROKERS,
    wanted="auto.create.topics.enable=false",
    why="A typo in a name, or a request for a deleted topic, creates a topic with the brokers' defaults.",
    fix=broker_setting("auto.create.topics.enable=false"),
)
def auto_create(broker: BrokerFacts, facts: Facts, requirements: Requirements) -> Broken | None:
    """Check auto.create.topics.enable."""
    return Broken("auto.create.topics.enable is true") if broker.settings.flag("auto.create.topics.enable") else None


def _at_least(broker: BrokerFacts, key: str, wanted: int) -> Broken | None:
    value = broker.settings.number(key)
    return Broken(f"{key} is {value}") if value < wanted else None


@check(
    "default-replication",
    Severity.MEDIUM,
    BROKERS,
    wanted=f"default.replication.factor of {COPIES} or more",
    why="Topics that are created without a replication factor get this one; Kafka's default is a single replica.",
    fix=broker_setting(f"default.replication.factor={COPIES}"),
)
def default_replication(broker: BrokerFacts, facts: Facts, requirements: Requirements) -> Broken | None:
    """Compare the default replication factor with three."""
    return _at_least(broker, "default.replication.factor", COPIES)


@check(
    "default-min-insync",
    Severity.MEDIUM,
    BROKERS,
    wanted="min.insync.replicas of 2 or more as the brokers' default",
    why="Topics that are created without min.insync.replicas get this value; Kafka's default is 1.",
    fix="kafka-configs.sh {server} --alter --entity-type brokers --entity-default --add-config min.insync.replicas=2",
)
def default_min_insync(broker: BrokerFacts, facts: Facts, requirements: Requirements) -> Broken | None:
    """Compare the default min.insync.replicas with two."""
    broken, copies = _at_least(broker, "min.insync.replicas", 2), broker.settings.number("default.replication.factor")
    if broken is None or copies >= COPIES:
        return broken
    # New topics would have too few replicas for it, and refuse writes when one broker restarts.
    first = f"# first default.replication.factor={COPIES}: with {copies}, 2 would stop writes; then audit again"
    return Broken(broken.found, fix=first)


def _not_created(facts: Facts, name: str) -> bool:
    """Return whether an internal topic does not exist yet; raise NotRead if that could not be read."""
    topic = next((each for each in facts.internal if each.name == name), None)
    if topic is not None and topic.problem and not topic.missing:
        raise NotRead(topic.problem)
    return topic is not None and topic.missing


@check(
    "consumer-offsets-topic",
    Severity.HIGH,
    BROKERS,
    wanted=f"offsets.topic.replication.factor of {COPIES} or more, while __consumer_offsets does not exist yet",
    why="The first consumer group creates the topic with this. If it has one replica and that broker fails, all "
    "groups lose their offsets.",
    fix=broker_setting(f"offsets.topic.replication.factor={COPIES}"),
)
def consumer_offsets_topic(broker: BrokerFacts, facts: Facts, requirements: Requirements) -> Broken | None:
    """Compare the replication factor with three, until the topic exists; then it is audited like the others."""
    if not _not_created(facts, "__consumer_offsets"):
        return None
    return _at_least(broker, "offsets.topic.replication.factor", COPIES)


@check(
    "transaction-state-topic",
    Severity.HIGH,
    BROKERS,
    wanted=f"transaction.state.log.replication.factor of {COPIES} and transaction.state.log.min.isr of 2 or "
    "more, while __transaction_state does not exist yet",
    why="The first transaction creates the topic with these. While it is not available, no transaction can end.",
    fix=broker_setting(f"transaction.state.log.replication.factor={COPIES}", "transaction.state.log.min.isr=2"),
)
def transaction_state_topic(broker: BrokerFacts, facts: Facts, requirements: Requirements) -> Broken | None:
    """Compare the replication factor with three and min.isr with two, until the topic exists."""
    if not _not_created(facts, "__transaction_state"):
        return None
    return _at_least(broker, "transaction.state.log.replication.factor", COPIES) or _at_least(
        broker, "transaction.state.log.min.isr", 2
    )


CHECKS: tuple[Check[BrokerFacts], ...] = (
    broker_racks,
    auto_create,
    default_replication,
    default_min_insync,
    consumer_offsets_topic,
    transaction_state_topic,
)
