"""What brokers give to topics that somebody makes tomorrow, the internal ones among them."""

from __future__ import annotations

from airflow_stream_provider.audit.check import BROKERS, Broken, Check, Severity, check
from airflow_stream_provider.audit.facts import BrokerFacts, Facts, NotRead, Requirements
from airflow_stream_provider.audit.fix import COPIES, broker_file


@check(
    "broker-racks",
    Severity.MEDIUM,
    BROKERS,
    wanted="broker.rack of every broker",
    why="Without it Kafka may put all replicas of a partition where one failure takes them all (Amazon MSK "
    "sets it to the zone).",
    fix=broker_file("broker.rack", "RACK"),
)
def broker_racks(broker: BrokerFacts, facts: Facts, needs: Requirements) -> Broken | None:
    """Look for a rack."""
    return None if broker.rack else Broken("broker.rack is not set")


@check(
    "auto-create",
    Severity.MEDIUM,
    BROKERS,
    wanted="auto.create.topics.enable=false",
    why="A typo, or a look at a topic that was deleted, makes a topic with the brokers' defaults.",
    fix=broker_file("auto.create.topics.enable", "false"),
)
def auto_create(broker: BrokerFacts, facts: Facts, needs: Requirements) -> Broken | None:
    """Look at the switch."""
    return Broken("auto.create.topics.enable is true") if broker.settings.flag("auto.create.topics.enable") else None


def _at_least(broker: BrokerFacts, key: str, wanted: int) -> Broken | None:
    value = broker.settings.number(key)
    return Broken(f"{key} is {value}") if value < wanted else None


@check(
    "default-replication",
    Severity.MEDIUM,
    BROKERS,
    wanted=f"default.replication.factor of {COPIES} or more",
    why="Who makes a topic and does not say gets this; Kafka's default is a single copy.",
    fix=broker_file("default.replication.factor", str(COPIES)),
)
def default_replication(broker: BrokerFacts, facts: Facts, needs: Requirements) -> Broken | None:
    """Compare the default with three."""
    return _at_least(broker, "default.replication.factor", COPIES)


@check(
    "default-min-insync",
    Severity.MEDIUM,
    BROKERS,
    wanted="min.insync.replicas of 2 or more as the brokers' default",
    why="Who makes a topic and does not say gets this; Kafka's default is 1.",
    fix="kafka-configs.sh {server} --alter --entity-type brokers --entity-default --add-config min.insync.replicas=2",
)
def default_min_insync(broker: BrokerFacts, facts: Facts, needs: Requirements) -> Broken | None:
    """Compare the default with two."""
    return _at_least(broker, "min.insync.replicas", 2)


def _coming(facts: Facts, name: str) -> bool:
    """Whether an internal topic is still to be made; raise NotRead when that cannot be seen."""
    topic = next((each for each in facts.internal if each.name == name), None)
    if topic is not None and topic.problem and not topic.missing:
        raise NotRead(topic.problem)
    return topic is not None and topic.missing


@check(
    "consumer-offsets-topic",
    Severity.HIGH,
    BROKERS,
    wanted=f"offsets.topic.replication.factor of {COPIES} or more, while there is no __consumer_offsets yet",
    why="The first consumer group makes the topic with this; on one broker that fails, every group forgets "
    "where it was.",
    fix=broker_file("offsets.topic.replication.factor", str(COPIES)),
)
def consumer_offsets_topic(broker: BrokerFacts, facts: Facts, needs: Requirements) -> Broken | None:
    """Compare with three what the topic will be made with; one that is there is audited like the others."""
    if not _coming(facts, "__consumer_offsets"):
        return None
    return _at_least(broker, "offsets.topic.replication.factor", COPIES)


@check(
    "transaction-state-topic",
    Severity.HIGH,
    BROKERS,
    wanted=f"transaction.state.log.replication.factor of {COPIES} and transaction.state.log.min.isr of 2 or "
    "more, while there "
    "is no __transaction_state yet",
    why="The first transaction makes the topic with these; without it nobody can end a transaction.",
    fix=r"printf 'transaction.state.log.replication.factor=3\ntransaction.state.log.min.isr=2\n' >> server.properties"
    "  # of broker {broker}, then restart it",
)
def transaction_state_topic(broker: BrokerFacts, facts: Facts, needs: Requirements) -> Broken | None:
    """Compare with three and two what the topic will be made with."""
    if not _coming(facts, "__transaction_state"):
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
