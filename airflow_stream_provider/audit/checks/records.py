"""Check sizes, timestamps and transactions: settings that delay or drop single records."""

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

# By default max.message.bytes is 12 bytes (offset and length of the batch) above the 1 MiB of clients and brokers.
BATCH_OVERHEAD = 12
# Kafka's defaults of message.timestamp.after.max.ms (since 3.6) and transaction.max.timeout.ms (since 0.11).
FUTURE_SECONDS = 3600.0
TRANSACTION_SECONDS = 900.0
_MIB = "1048576"
_NEVER = 2**63 - 1


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
    "fetch-size",
    Severity.MEDIUM,
    TOPICS,
    wanted="the source's kafka.max.partition.fetch.bytes not below max.message.bytes",
    why="A larger batch is still returned (KIP-74), but only one per request, which slows a stream that is behind.",
    fix='.option("kafka.max.partition.fetch.bytes", {value})  # on the stream\'s Kafka source',
)
def fetch_size(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Compare the source's fetch size with the topic's limit."""
    largest = topic.settings.number("max.message.bytes")
    fetched = requirements.number("source", "kafka.max.partition.fetch.bytes", _MIB)
    if fetched + BATCH_OVERHEAD >= largest:
        return None
    return Broken(f"{fetched} bytes are fetched, batches may have {largest}", {"value": largest})


@check(
    "replica-fetch-size",
    Severity.MEDIUM,
    BROKERS,
    wanted="replica.fetch.max.bytes not below max.message.bytes of any topic",
    why="Followers fetch larger batches one by one, and fall out of sync under load.",
    fix=broker_file("replica.fetch.max.bytes"),
)
def replica_fetch_size(broker: BrokerFacts, facts: Facts, requirements: Requirements) -> Broken | None:
    """Compare the followers' fetch size with the largest limit of the topics."""
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
    why="A record whose timestamp, set by the producer, is older than retention.ms is deleted before it is read.",
    fix=topic_setting("message.timestamp.before.max.ms"),
)
def timestamps_past(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Compare the allowed age of a new record with the retention time."""
    kept = topic.settings.seconds("retention.ms")
    if topic.settings.text("message.timestamp.type") == "LogAppendTime":
        return None
    if "delete" not in topic.settings.text("cleanup.policy"):
        return None
    old = topic.settings.seconds("message.timestamp.before.max.ms")
    if old <= kept:
        return None
    return Broken(
        f"new records may be {format_duration(old)} old, and are kept for {format_duration(kept)}",
        {"value": topic.settings.text("retention.ms")},
    )


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
    "flush",
    Severity.INFO,
    ALL_TOPICS,
    wanted="flush.messages and flush.ms not set",
    why="Replication protects records. Forced flushes only slow down writes (Kafka's topic configuration).",
    fix=topic_setting("flush.messages", f"{_NEVER},flush.ms={_NEVER}"),
)
def flush(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Check that flushes are not forced."""
    found = {key: topic.settings.number(key) for key in ("flush.messages", "flush.ms")}
    bad = [f"{key} is {value}" for key, value in found.items() if value != _NEVER]
    return Broken(" and ".join(bad)) if bad else None


@check(
    "open-transactions",
    Severity.MEDIUM,
    ALL_TOPICS,
    wanted="no transaction open for longer than transaction.max.timeout.ms",
    why="Consumers with read_committed stop before it, and no lag shows that (KIP-664).",
    fix="kafka-transactions.sh {server} abort --topic {topic} --partition {partition} --start-offset {offset}",
)
def open_transactions(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Find partitions whose last stable offset is held by a transaction that should have timed out."""
    facts.require_field("held")
    bad = [partition for partition in topic.partitions if partition.held is not None]
    if not bad:
        return None
    # The command aborts the first one; the next audit names the next.
    values = {"partition": bad[0].number, "offset": bad[0].held}
    return Broken(f"{partition_numbers(bad)}: a transaction that should have timed out is open", values)


@check(
    "transaction-timeout",
    Severity.MEDIUM,
    BROKERS,
    wanted="transaction.max.timeout.ms of at most 15 minutes",
    why="If a producer fails in a transaction, all consumers with read_committed wait that long.",
    fix=broker_file("transaction.max.timeout.ms", "900000"),
)
def transaction_timeout(broker: BrokerFacts, facts: Facts, requirements: Requirements) -> Broken | None:
    """Check how long a transaction may stay open."""
    limit = broker.settings.seconds("transaction.max.timeout.ms")
    return Broken(f"a transaction may be open for {format_duration(limit)}") if limit > TRANSACTION_SECONDS else None


ON_TOPICS: tuple[Check[Topic], ...] = (
    message_size,
    fetch_size,
    timestamps_past,
    timestamps_future,
    flush,
    open_transactions,
)
ON_BROKERS: tuple[Check[BrokerFacts], ...] = (replica_fetch_size, transaction_timeout)
