"""Check the declared settings of clients: producers, Spark's source and sink, and the executors' cores."""

from __future__ import annotations

from airflow_stream_provider.audit.check import CLIENTS, CLUSTER, Broken, Check, Severity, check
from airflow_stream_provider.audit.facts import Facts, NotRead, NotVerifiable, Requirements

PARTITIONS_PER_CORE = 3
DELIVERY_SECONDS = 60


@check(
    "partitions",
    Severity.MEDIUM,
    CLUSTER,
    wanted=f"{PARTITIONS_PER_CORE} partitions or more, of all topics together, for each core of the executors",
    why="Spark reads each partition in one task, and its tuning guide asks for two to three tasks per core. "
    "With fewer partitions, cores are idle while the stream catches up. If adding partitions is not possible "
    "because keys would move, set minPartitions on the source.",
    fix="kafka-topics.sh {server} --alter --topic {pattern} --partitions {count}",
)
def partitions(facts: Facts, _: Facts, requirements: Requirements) -> Broken | None:
    """Compare the number of partitions with three times the cores."""
    if requirements.executor_cores is None:
        raise NotVerifiable("The cores of all executors together were not declared (executor_cores=).")
    unread = [topic.name for topic in facts.topics if topic.problem]
    if unread:
        raise NotRead(f"The partitions of {', '.join(unread)} could not be read.")
    found = sum(len(topic.partitions) for topic in facts.topics)
    wanted = PARTITIONS_PER_CORE * requirements.executor_cores
    if found >= wanted:
        return None
    largest = max(facts.topics, key=lambda topic: len(topic.partitions))
    return Broken(
        f"{found} partitions for {requirements.executor_cores} cores, {wanted} wanted",
        {"topic": largest.name, "count": len(largest.partitions) + wanted - found},
    )


@check(
    "producer-acks",
    Severity.HIGH,
    CLIENTS,
    wanted="acks=all at the producers",
    why="With any other value a write counts before a second broker has it, whatever min.insync.replicas is.",
    fix="acks=all  # in the producer's settings",
)
def producer_acks(requirements: Requirements, facts: Facts, _: Requirements) -> Broken | None:
    """Check the declared acks."""
    value = requirements.option("producer", "acks")
    return None if value in ("all", "-1") else Broken(f"acks is {value}")


@check(
    "producer-idempotence",
    Severity.MEDIUM,
    CLIENTS,
    wanted="enable.idempotence=true at the producers",
    why="Without it, a retry after a lost response writes the record twice (KIP-679).",
    fix="enable.idempotence=true  # in the producer's settings",
)
def producer_idempotence(requirements: Requirements, facts: Facts, _: Requirements) -> Broken | None:
    """Check the declared enable.idempotence."""
    return (
        Broken("enable.idempotence is false")
        if requirements.option("producer", "enable.idempotence") != "true"
        else None
    )


@check(
    "producer-retries",
    Severity.MEDIUM,
    CLIENTS,
    wanted=f"delivery.timeout.ms of {DELIVERY_SECONDS} s or more at the producers, and retries not set",
    why="While a broker restarts, its partitions have no leader for some seconds. A producer that gives up earlier "
    "drops records (Amazon MSK's client settings).",
    fix="delivery.timeout.ms=120000  # in the producer's settings, and remove retries",
)
def producer_retries(requirements: Requirements, facts: Facts, _: Requirements) -> Broken | None:
    """Check the declared timeout and retries; the defaults of all clients are enough."""
    timeout = requirements.number("producer", "delivery.timeout.ms", "120000")
    retries = requirements.number("producer", "retries", str(2**31 - 1))
    if timeout < DELIVERY_SECONDS * 1000:
        return Broken(f"delivery.timeout.ms is {timeout}")
    return Broken(f"retries is {retries}") if retries < DELIVERY_SECONDS else None


@check(
    "producer-in-flight",
    Severity.MEDIUM,
    CLIENTS,
    wanted="max.in.flight.requests.per.connection of 5 or less at the producers",
    why="Brokers keep the order of at most five batches that are retried.",
    fix="max.in.flight.requests.per.connection=5  # in the producer's settings",
)
def producer_in_flight(requirements: Requirements, facts: Facts, _: Requirements) -> Broken | None:
    """Check the declared number; clients with idempotence limit it themselves."""
    idempotent = requirements.producer is not None and "enable.idempotence" in requirements.producer
    default = "5" if idempotent and requirements.option("producer", "enable.idempotence") == "true" else None
    value = requirements.number("producer", "max.in.flight.requests.per.connection", default)
    return Broken(f"max.in.flight.requests.per.connection is {value}") if value > 5 else None


@check(
    "source-data-loss",
    Severity.MEDIUM,
    CLIENTS,
    wanted="failOnDataLoss=true at Spark's source",
    why="With false, Spark silently skips records that Kafka deleted before they were read (Spark's Kafka guide).",
    fix='.option("failOnDataLoss", "true")  # on the stream\'s Kafka source',
)
def source_data_loss(requirements: Requirements, facts: Facts, _: Requirements) -> Broken | None:
    """Check the declared failOnDataLoss."""
    return (
        Broken("failOnDataLoss is false")
        if requirements.option("source", "failOnDataLoss", "true") == "false"
        else None
    )


@check(
    "source-batch-limit",
    Severity.MEDIUM,
    CLIENTS,
    wanted="maxOffsetsPerTrigger set at Spark's source",
    why="Without it the first batch after an outage reads everything since: hours without a commit, and memory "
    "for all of it.",
    fix='.option("maxOffsetsPerTrigger", "1000000")  # on the stream\'s Kafka source; as many as it reads in a minute',
)
def source_batch_limit(requirements: Requirements, facts: Facts, _: Requirements) -> Broken | None:
    """Check that maxOffsetsPerTrigger is declared."""
    return (
        None if requirements.option("source", "maxOffsetsPerTrigger", "") else Broken("maxOffsetsPerTrigger is not set")
    )


@check(
    "sink-acks",
    Severity.INFO,
    CLIENTS,
    wanted="kafka.acks and kafka.enable.idempotence at Spark's sink not set, or all and true",
    why="With other values the sink can lose records of batches that Spark has committed. In any case it writes at "
    "least once: a batch that runs again is written again (Spark's Kafka guide).",
    fix='.option("kafka.acks", "all").option("kafka.enable.idempotence", "true")  # on the stream\'s Kafka sink',
)
def sink_acks(requirements: Requirements, facts: Facts, _: Requirements) -> Broken | None:
    """Check the declared options; the defaults are right since Kafka 3."""
    acks, idempotence = (
        requirements.option("sink", "kafka.acks", "all"),
        requirements.option("sink", "kafka.enable.idempotence", "true"),
    )
    if acks not in ("all", "-1"):
        return Broken(f"kafka.acks is {acks}")
    return Broken("kafka.enable.idempotence is false") if idempotence != "true" else None


ON_THE_CLUSTER: tuple[Check[Facts], ...] = (partitions,)
CHECKS: tuple[Check[Requirements], ...] = (
    producer_acks,
    producer_idempotence,
    producer_retries,
    producer_in_flight,
    source_data_loss,
    source_batch_limit,
    sink_acks,
)
