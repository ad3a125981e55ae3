"""Check the brokers' defaults, and settings that delay or drop single records."""

from __future__ import annotations

from airflow_stream_provider.audit.check import (
    ALL_TOPICS,
    BROKERS,
    COPIES,
    TOPICS,
    Broken,
    Check,
    Severity,
    broker_setting,
    check,
    topic_setting,
)
from airflow_stream_provider.audit.facts import (
    BrokerFacts,
    Facts,
    NotRead,
    Requirements,
    Topic,
    format_duration,
    partition_numbers,
)


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


# By default max.message.bytes is 12 bytes (offset and length of the batch) above the 1 MiB of clients and brokers.
BATCH_OVERHEAD = 12
# Kafka's default of message.timestamp.after.max.ms, since 3.6.
FUTURE_SECONDS = 3600.0
_MIB = "1048576"
# The default of transaction.timeout.ms at all clients.
_TRANSACTION_MS = "60000"


@check(
    "message-size",
    Severity.MEDIUM,
    TOPICS,
    wanted="max.message.bytes not below the producer's max.request.size",
    why="Otherwise brokers refuse batches that the producer may build, and the producer drops them.",
    fix=topic_setting("max.message.bytes"),
)
def message_size(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Compare the topic's limit with the producer's."""
    allowed = topic.settings.number("max.message.bytes")
    made = requirements.number("producer", "max.request.size", _MIB)
    if made <= allowed:
        return None
    return Broken(f"max.message.bytes is {allowed}, max.request.size {made}", {"value": made + BATCH_OVERHEAD})


@check(
    "replica-fetch-size",
    Severity.MEDIUM,
    BROKERS,
    wanted="replica.fetch.max.bytes not below max.message.bytes of any topic",
    why="Followers fetch larger batches one by one, and fall out of sync under load.",
    fix=broker_setting("replica.fetch.max.bytes={value}"),
)
def replica_fetch_size(broker: BrokerFacts, facts: Facts, requirements: Requirements) -> Broken | None:
    """Compare the followers' fetch size with the largest limit of the topics."""
    fetched = broker.settings.number("replica.fetch.max.bytes")
    largest = max((t.settings.number("max.message.bytes") for t in facts.topics if not t.problem), default=0)
    if fetched + BATCH_OVERHEAD >= largest:
        return None
    return Broken(f"{fetched} bytes are fetched, batches may have {largest}", {"value": largest})


@check(
    "timestamps-future",
    Severity.LOW,
    TOPICS,
    wanted="message.timestamp.type=LogAppendTime, or message.timestamp.after.max.ms of at most an hour",
    why="One record with a timestamp far in the future keeps its whole segment too long, and makes the lag in seconds "
    "wrong.",
    fix=topic_setting("message.timestamp.after.max.ms", "3600000"),
)
def timestamps_future(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Check how far in the future a timestamp may be."""
    if topic.settings.text("message.timestamp.type") == "LogAppendTime":
        return None
    ahead = topic.settings.seconds("message.timestamp.after.max.ms")
    return Broken(f"timestamps may be {format_duration(ahead)} ahead") if ahead > FUTURE_SECONDS else None


@check(
    "open-transactions",
    Severity.MEDIUM,
    ALL_TOPICS,
    wanted="no transaction open for longer than its producer's transaction.timeout.ms",
    why="Consumers with read_committed stop before it, and no lag shows that (KIP-664).",
    fix="kafka-transactions.sh {server} abort --topic {topic} --partition {partition} --start-offset {offset}",
)
def open_transactions(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Find partitions whose last stable offset is held by a transaction that should have timed out."""
    facts.require_field("held")
    bad = [partition for partition in topic.partitions if partition.held is not None]
    if bad:
        # The command aborts the first one; the next audit names the next.
        values = {"partition": bad[0].number, "offset": bad[0].held}
        return Broken(f"{partition_numbers(bad)}: a transaction that should have timed out is open", values)
    unlisted = [partition for partition in topic.partitions if partition.unlisted is not None]
    if unlisted:
        # Aborting it would destroy a healthy transaction that the user only may not see.
        raise NotRead(
            f"{partition_numbers(unlisted)}: a transaction is open that no coordinator lists. Either the user lacks "
            "DESCRIBE on its transactional id, or it hangs; kafka-transactions.sh find-hanging tells which."
        )
    return None


@check(
    "transaction-timeout",
    Severity.MEDIUM,
    BROKERS,
    wanted="transaction.max.timeout.ms not below transaction.timeout.ms of the producers",
    why="Brokers refuse a producer that asks for more, so it cannot write at all. A producer that has to survive a "
    "longer outage in a transaction, as Flink's sink does, loses what the transaction held when brokers abort it.",
    fix=broker_setting("transaction.max.timeout.ms={value}"),
)
def transaction_timeout(broker: BrokerFacts, facts: Facts, requirements: Requirements) -> Broken | None:
    """Compare the brokers' limit with what the producers ask for."""
    allowed = broker.settings.number("transaction.max.timeout.ms")
    if not requirements.option("producer", "transactional.id", ""):
        return None
    asked = requirements.number("producer", "transaction.timeout.ms", _TRANSACTION_MS)
    if asked <= allowed:
        return None
    found = f"transactions may be open for {format_duration(allowed / 1000)}, producers ask for"
    return Broken(f"{found} {format_duration(asked / 1000)}", {"value": asked})


ON_TOPICS: tuple[Check[Topic], ...] = (message_size, timestamps_future, open_transactions)
ON_BROKERS: tuple[Check[BrokerFacts], ...] = (replica_fetch_size, transaction_timeout)
