"""Check the declared settings of clients: producers, and Spark's source and sink."""

from __future__ import annotations

from airflow_stream_provider.audit.check import CLIENTS, Broken, Check, Severity, check
from airflow_stream_provider.audit.facts import Facts, Requirements

DELIVERY_SECONDS = 60


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
    "producer-timeouts",
    Severity.MEDIUM,
    CLIENTS,
    wanted="delivery.timeout.ms of at least linger.ms and request.timeout.ms together at the producers",
    why="Otherwise a record may expire before its first request has failed, and is dropped without a retry. Java's "
    "producer and kafka-python refuse to start with such settings.",
    fix="delivery.timeout.ms={value}  # in the producer's settings",
)
def producer_timeouts(requirements: Requirements, facts: Facts, _: Requirements) -> Broken | None:
    """Compare the declared timeouts; the defaults of all clients fit each other."""
    delivery = requirements.number("producer", "delivery.timeout.ms", "120000")
    linger = requirements.number("producer", "linger.ms", "0")
    request = requirements.number("producer", "request.timeout.ms", "30000")
    if delivery >= linger + request:
        return None
    found = f"delivery.timeout.ms is {delivery}, linger.ms {linger} and request.timeout.ms {request}"
    return Broken(found, {"value": linger + request})


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


CHECKS: tuple[Check[Requirements], ...] = (
    producer_acks,
    producer_idempotence,
    producer_retries,
    producer_timeouts,
    producer_in_flight,
    source_data_loss,
    sink_acks,
)
