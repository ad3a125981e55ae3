"""What no broker knows: the declared settings of producers, of Spark's source and sink, and the executors' cores."""

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
    why="Spark reads each partition in one task, and its tuning guide asks for two to three tasks per core; "
    "with fewer, cores idle while the stream catches up. Keys move when partitions are added: minPartitions on "
    "the source splits them instead.",
    fix="kafka-topics.sh {server} --alter --topic {pattern} --partitions {count}",
)
def partitions(facts: Facts, _: Facts, needs: Requirements) -> Broken | None:
    """Compare the partitions with three times the cores."""
    if needs.executor_cores is None:
        raise NotVerifiable("The cores of all executors together were not declared (executor_cores=).")
    unread = [topic.name for topic in facts.topics if topic.problem]
    if unread:
        raise NotRead(f"The partitions of {', '.join(unread)} are not known.")
    found = sum(len(topic.partitions) for topic in facts.topics)
    wanted = PARTITIONS_PER_CORE * needs.executor_cores
    if found >= wanted:
        return None
    largest = max(facts.topics, key=lambda topic: len(topic.partitions))
    return Broken(
        f"{found} partitions for {needs.executor_cores} cores, {wanted} wanted",
        {"topic": largest.name, "count": len(largest.partitions) + wanted - found},
    )


@check(
    "producer-acks",
    Severity.HIGH,
    CLIENTS,
    wanted="acks=all at the producers",
    why="With less a write counts before a second broker has it, whatever min.insync.replicas says.",
    fix="acks=all  # in the producer's settings",
)
def producer_acks(needs: Requirements, facts: Facts, _: Requirements) -> Broken | None:
    """Look at the declared acks."""
    value = needs.option("producer", "acks")
    return None if value in ("all", "-1") else Broken(f"acks is {value}")


@check(
    "producer-idempotence",
    Severity.MEDIUM,
    CLIENTS,
    wanted="enable.idempotence=true at the producers",
    why="Without it a retry after a lost answer writes the record twice (KIP-679).",
    fix="enable.idempotence=true  # in the producer's settings",
)
def producer_idempotence(needs: Requirements, facts: Facts, _: Requirements) -> Broken | None:
    """Look at the declared switch."""
    return Broken("enable.idempotence is false") if needs.option("producer", "enable.idempotence") != "true" else None


@check(
    "producer-retries",
    Severity.MEDIUM,
    CLIENTS,
    wanted=f"delivery.timeout.ms of {DELIVERY_SECONDS} s or more at the producers, and retries left alone",
    why="A broker that restarts takes its leaders away for seconds, and a producer that gives up earlier drops records "
    "(Amazon MSK's client settings).",
    fix="delivery.timeout.ms=120000  # in the producer's settings, and no retries",
)
def producer_retries(needs: Requirements, facts: Facts, _: Requirements) -> Broken | None:
    """Look at the declared time; every client's own default is enough."""
    timeout = needs.number("producer", "delivery.timeout.ms", "120000")
    retries = needs.number("producer", "retries", str(2**31 - 1))
    if timeout < DELIVERY_SECONDS * 1000:
        return Broken(f"delivery.timeout.ms is {timeout}")
    return Broken(f"retries is {retries}") if retries < DELIVERY_SECONDS else None


@check(
    "producer-in-flight",
    Severity.MEDIUM,
    CLIENTS,
    wanted="max.in.flight.requests.per.connection of 5 or less at the producers",
    why="Brokers can put the retries of five batches in order, no more.",
    fix="max.in.flight.requests.per.connection=5  # in the producer's settings",
)
def producer_in_flight(needs: Requirements, facts: Facts, _: Requirements) -> Broken | None:
    """Look at the declared number; every client with idempotence limits it by itself."""
    idempotent = needs.producer is not None and "enable.idempotence" in needs.producer
    default = "5" if idempotent and needs.option("producer", "enable.idempotence") == "true" else None
    value = needs.number("producer", "max.in.flight.requests.per.connection", default)
    return Broken(f"max.in.flight.requests.per.connection is {value}") if value > 5 else None


@check(
    "source-data-loss",
    Severity.MEDIUM,
    CLIENTS,
    wanted="failOnDataLoss=true at Spark's source",
    why="With false, records that were deleted before they were read are skipped, and nobody is told (Spark's "
    "Kafka guide).",
    fix='.option("failOnDataLoss", "true")  # on the stream\'s Kafka source',
)
def source_data_loss(needs: Requirements, facts: Facts, _: Requirements) -> Broken | None:
    """Look at the declared option."""
    return Broken("failOnDataLoss is false") if needs.option("source", "failOnDataLoss", "true") == "false" else None


@check(
    "source-batch-limit",
    Severity.MEDIUM,
    CLIENTS,
    wanted="maxOffsetsPerTrigger set at Spark's source",
    why="Without it the first batch after an outage is the whole outage: hours without a commit, and memory "
    "for all of it.",
    fix='.option("maxOffsetsPerTrigger", "1000000")  # on the stream\'s Kafka source; as many as a minute takes',
)
def source_batch_limit(needs: Requirements, facts: Facts, _: Requirements) -> Broken | None:
    """Look for the option."""
    return None if needs.option("source", "maxOffsetsPerTrigger", "") else Broken("maxOffsetsPerTrigger is not set")


@check(
    "sink-acks",
    Severity.INFO,
    CLIENTS,
    wanted="kafka.acks and kafka.enable.idempotence left alone at Spark's sink, or all and true",
    why="With less the sink itself loses what Spark has committed. Even so it writes at least once: a batch "
    "that is tried again is written again (Spark's Kafka guide).",
    fix='.option("kafka.acks", "all").option("kafka.enable.idempotence", "true")  # on the stream\'s Kafka sink',
)
def sink_acks(needs: Requirements, facts: Facts, _: Requirements) -> Broken | None:
    """Look at the declared options; what is left alone is right since Kafka 3."""
    acks, idempotence = (
        needs.option("sink", "kafka.acks", "all"),
        needs.option("sink", "kafka.enable.idempotence", "true"),
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
