"""Sizes, timestamps and transactions: settings that hold up or drop single records."""

from __future__ import annotations

from airflow_stream_provider.audit.check import ALL_TOPICS, BROKERS, TOPICS, Broken, Check, Severity, check
from airflow_stream_provider.audit.facts import (
    BrokerFacts,
    Facts,
    Requirements,
    Topic,
    format_duration,
    partition_numbers,
)
from airflow_stream_provider.audit.fix import broker_file, topic_setting

# max.message.bytes is 12 bytes (offset and length of the batch) above the clients' and the brokers' 1 MiB by default.
BATCH_OVERHEAD = 12
# What Kafka allows by default since 3.6, and since 0.11.
FUTURE_SECONDS = 3600.0
TRANSACTION_SECONDS = 900.0
_MIB = "1048576"
_NEVER = 2**63 - 1


@check(
    "message-size",
    Severity.MEDIUM,
    TOPICS,
    wanted="max.message.bytes of the producer's max.request.size or more",
    why="The broker refuses a batch that the producer was allowed to make, and the producer drops it.",
    fix=topic_setting("max.message.bytes"),
)
def message_size(topic: Topic, facts: Facts, needs: Requirements) -> Broken | None:
    """Compare the topic's limit with the producer's."""
    allowed = topic.settings.number("max.message.bytes")
    made = needs.number("producer", "max.request.size", _MIB)
    if made <= allowed:
        return None
    return Broken(f"max.message.bytes is {allowed}, max.request.size {made}", {"value": made + BATCH_OVERHEAD})


@check(
    "fetch-size",
    Severity.MEDIUM,
    TOPICS,
    wanted="the source's kafka.max.partition.fetch.bytes of max.message.bytes or more",
    why="A larger batch still comes (KIP-74), but alone: one per request while a stream is behind.",
    fix='.option("kafka.max.partition.fetch.bytes", {value})  # on the stream\'s Kafka source',
)
def fetch_size(topic: Topic, facts: Facts, needs: Requirements) -> Broken | None:
    """Compare what the source fetches with the topic's limit."""
    largest = topic.settings.number("max.message.bytes")
    fetched = needs.number("source", "kafka.max.partition.fetch.bytes", _MIB)
    if fetched + BATCH_OVERHEAD >= largest:
        return None
    return Broken(f"{fetched} bytes are fetched, batches may have {largest}", {"value": largest})


@check(
    "replica-fetch-size",
    Severity.MEDIUM,
    BROKERS,
    wanted="replica.fetch.max.bytes of every topic's max.message.bytes or more",
    why="Followers copy larger batches one by one, and fall out of sync under load.",
    fix=broker_file("replica.fetch.max.bytes"),
)
def replica_fetch_size(broker: BrokerFacts, facts: Facts, needs: Requirements) -> Broken | None:
    """Compare what followers fetch with the largest limit of the topics."""
    fetched = broker.settings.number("replica.fetch.max.bytes")
    largest = max((t.settings.number("max.message.bytes") for t in facts.topics if not t.problem), default=0)
    if fetched + BATCH_OVERHEAD >= largest:
        return None
    return Broken(f"{fetched} bytes are fetched, batches may have {largest}", {"value": largest})


@check(
    "timestamps-past",
    Severity.LOW,
    TOPICS,
    wanted="message.timestamp.type=LogAppendTime, or message.timestamp.before.max.ms of at most retention.ms",
    why="With the producer's clock, a record that comes with an old time is deleted at once, unread.",
    fix=topic_setting("message.timestamp.before.max.ms"),
)
def timestamps_past(topic: Topic, facts: Facts, needs: Requirements) -> Broken | None:
    """Compare how old a new record may be with how long it is kept."""
    kept = topic.settings.seconds("retention.ms")
    if topic.settings.text("message.timestamp.type") == "LogAppendTime":
        return None
    if "delete" not in topic.settings.text("cleanup.policy"):
        return None
    old = topic.settings.seconds("message.timestamp.before.max.ms")
    if old <= kept:
        return None
    return Broken(
        f"may be {format_duration(old)} old, kept for {format_duration(kept)}",
        {"value": topic.settings.text("retention.ms")},
    )


@check(
    "timestamps-future",
    Severity.LOW,
    TOPICS,
    wanted="message.timestamp.type=LogAppendTime, or message.timestamp.after.max.ms of an hour at most",
    why="One record with a time far ahead keeps its whole segment beyond its time, and spoils every lag in seconds.",
    fix=topic_setting("message.timestamp.after.max.ms", "3600000"),
)
def timestamps_future(topic: Topic, facts: Facts, needs: Requirements) -> Broken | None:
    """Look at how far ahead the producer's clock may be."""
    if topic.settings.text("message.timestamp.type") == "LogAppendTime":
        return None
    ahead = topic.settings.seconds("message.timestamp.after.max.ms")
    return Broken(f"may be {format_duration(ahead)} ahead") if ahead > FUTURE_SECONDS else None


@check(
    "flush",
    Severity.INFO,
    ALL_TOPICS,
    wanted="flush.messages and flush.ms left alone",
    why="Replication is what keeps records; forcing the disk only makes writes slow (Kafka's topic configuration).",
    fix=topic_setting("flush.messages", f"{_NEVER},flush.ms={_NEVER}"),
)
def flush(topic: Topic, facts: Facts, needs: Requirements) -> Broken | None:
    """Look for forced flushes."""
    found = {key: topic.settings.number(key) for key in ("flush.messages", "flush.ms")}
    bad = [f"{key} is {value}" for key, value in found.items() if value != _NEVER]
    return Broken(" and ".join(bad)) if bad else None


@check(
    "open-transactions",
    Severity.MEDIUM,
    ALL_TOPICS,
    wanted="no transaction open for longer than transaction.max.timeout.ms",
    why="Readers with read_committed stand still before it, without any lag to be seen (KIP-664).",
    fix="kafka-transactions.sh {server} abort --topic {topic} --partition {partition} --start-offset {offset}",
)
def open_transactions(topic: Topic, facts: Facts, needs: Requirements) -> Broken | None:
    """Find partitions whose last stable offset a transaction holds that should have timed out."""
    facts.require_field("held")
    bad = [partition for partition in topic.partitions if partition.held is not None]
    if not bad:
        return None
    # One after the other: once the first is aborted, the next audit names the next.
    values = {"partition": bad[0].number, "offset": bad[0].held}
    return Broken(f"{partition_numbers(bad)}: a transaction that should have timed out is open", values)


@check(
    "transaction-timeout",
    Severity.MEDIUM,
    BROKERS,
    wanted="transaction.max.timeout.ms of 15 minutes at most",
    why="A producer that dies in a transaction holds up every read_committed reader for so long.",
    fix=broker_file("transaction.max.timeout.ms", "900000"),
)
def transaction_timeout(broker: BrokerFacts, facts: Facts, needs: Requirements) -> Broken | None:
    """Look at how long a transaction may be open."""
    limit = broker.settings.seconds("transaction.max.timeout.ms")
    return Broken(f"may be open for {format_duration(limit)}") if limit > TRANSACTION_SECONDS else None


ON_TOPICS: tuple[Check[Topic], ...] = (
    message_size,
    fetch_size,
    timestamps_past,
    timestamps_future,
    flush,
    open_transactions,
)
ON_BROKERS: tuple[Check[BrokerFacts], ...] = (replica_fetch_size, transaction_timeout)
