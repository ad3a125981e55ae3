"""Checks of the brokers' settings and defaults, and of the declared settings of producers and of Spark."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from airflow_stream_provider.audit.check import Broken, Check, NotRead, Severity, broken_if
from airflow_stream_provider.audit.kafka.checks.records import BATCH_OVERHEAD
from airflow_stream_provider.audit.kafka.commands import BROKERS, CLIENTS, COPIES, Look, broker_setting, flag_off
from airflow_stream_provider.audit.kafka.facts import BrokerFacts, Facts, Requirements, format_duration

DELIVERY_SECONDS = 60
_ACKS = ("all", "-1")
# The default of transaction.timeout.ms at all clients.
_TRANSACTION_MS = "60000"


def _fetch_size(broker: BrokerFacts, facts: Facts, _: Requirements) -> Broken | None:
    fetched = broker.settings.number("replica.fetch.max.bytes")
    largest = max((t.settings.number("max.message.bytes") for t in facts.topics if not t.problem), default=0)
    found = f"{fetched} bytes are fetched, batches may have {largest}"
    return broken_if(fetched + BATCH_OVERHEAD < largest, found, value=largest)


def _transaction_timeout(broker: BrokerFacts, _: Facts, requirements: Requirements) -> Broken | None:
    allowed = broker.settings.number("transaction.max.timeout.ms")
    if not requirements.option("producer", "transactional.id", ""):
        return None
    asked = requirements.number("producer", "transaction.timeout.ms", _TRANSACTION_MS)
    limit, wish = format_duration(allowed / 1000), format_duration(asked / 1000)
    return broken_if(asked > allowed, f"transactions may be open for {limit}, producers ask for {wish}", value=asked)


def _at_least(wanted: Mapping[str, int]) -> Look:
    """Return a look at settings, each of which must have at least this value."""

    def look(broker: BrokerFacts, *_: object) -> Broken | None:
        values = ((key, broker.settings.number(key), least) for key, least in wanted.items())
        return next((Broken(f"{key} is {value}") for key, value, least in values if value < least), None)

    return look


def _until_created(name: str, look: Look) -> Look:
    """Return a look at the settings of an internal topic; once that exists, it is audited like the others."""

    def not_created(broker: BrokerFacts, facts: Facts, requirements: Requirements) -> Broken | None:
        topic = next((each for each in facts.internal if each.name == name), None)
        if topic is not None and topic.problem and not topic.missing:
            raise NotRead(topic.problem)
        return look(broker, facts, requirements) if topic is not None and topic.missing else None

    return not_created


def _default_min_insync(broker: BrokerFacts, *_: object) -> Broken | None:
    value = broker.settings.number("min.insync.replicas")
    copies = broker.settings.number("default.replication.factor")
    # New topics would have too few replicas for it, and refuse writes when one broker restarts.
    first = f"# first default.replication.factor={COPIES}: with {copies}, 2 would stop writes; then audit again"
    return broken_if(value < 2, f"min.insync.replicas is {value}", "" if copies >= COPIES else first)


def _declared(client: str, good: Mapping[str, Collection[str]], *, by_default: bool = False) -> Look:
    """Return a look at declared settings of a client, each of which must have one of these values.

    :param by_default: it has one if it was not declared; default: that depends on the client.
    """

    def look(requirements: Requirements, *_: object) -> Broken | None:
        for key, values in good.items():
            value = requirements.option(client, key, next(iter(values)) if by_default else None)
            if value not in values:
                return Broken(f"{key} is {value}")
        return None

    return look


def _retries(requirements: Requirements, *_: object) -> Broken | None:
    timeout = requirements.number("producer", "delivery.timeout.ms", "120000")
    retries = requirements.number("producer", "retries", str(2**31 - 1))
    if timeout < DELIVERY_SECONDS * 1000:
        return Broken(f"delivery.timeout.ms is {timeout}")
    return broken_if(retries < DELIVERY_SECONDS, f"retries is {retries}")


def _timeouts(requirements: Requirements, *_: object) -> Broken | None:
    delivery = requirements.number("producer", "delivery.timeout.ms", "120000")
    linger = requirements.number("producer", "linger.ms", "0")
    request = requirements.number("producer", "request.timeout.ms", "30000")
    found = f"delivery.timeout.ms is {delivery}, linger.ms {linger} and request.timeout.ms {request}"
    return broken_if(delivery < linger + request, found, value=linger + request)


def _in_flight(requirements: Requirements, *_: object) -> Broken | None:
    # Clients with idempotence limit it themselves.
    idempotent = requirements.producer is not None and "enable.idempotence" in requirements.producer
    default = "5" if idempotent and requirements.option("producer", "enable.idempotence") == "true" else None
    value = requirements.number("producer", "max.in.flight.requests.per.connection", default)
    return broken_if(value > 5, f"max.in.flight.requests.per.connection is {value}")


CHECKS = (
    Check(
        "replica-fetch-size",
        Severity.MEDIUM,
        BROKERS,
        "replica.fetch.max.bytes not below max.message.bytes of any topic",
        "Followers fetch larger batches one by one, and fall out of sync under load.",
        broker_setting("replica.fetch.max.bytes={value}"),
        _fetch_size,
    ),
    Check(
        "transaction-timeout",
        Severity.MEDIUM,
        BROKERS,
        "transaction.max.timeout.ms not below transaction.timeout.ms of the producers",
        "Brokers refuse a producer that asks for more, so it cannot write at all. A producer that has to survive a "
        "longer outage in a transaction, as Flink's sink does, loses what the transaction held when brokers abort it.",
        broker_setting("transaction.max.timeout.ms={value}"),
        _transaction_timeout,
    ),
    Check(
        "broker-racks",
        Severity.MEDIUM,
        BROKERS,
        "broker.rack of every broker",
        "Without it Kafka may place all replicas of a partition in one rack or zone, which can fail as a whole "
        "(Amazon MSK sets it to the zone).",
        broker_setting("broker.rack=RACK"),
        lambda broker, *_: broken_if(not broker.rack, "broker.rack is not set"),
    ),
    Check(
        "auto-create",
        Severity.MEDIUM,
        BROKERS,
        "auto.create.topics.enable=false",
        "A typo in a name, or a request for a deleted topic, creates a topic with the brokers' defaults.",
        broker_setting("auto.create.topics.enable=false"),
        flag_off("auto.create.topics.enable"),
    ),
    Check(
        "default-replication",
        Severity.MEDIUM,
        BROKERS,
        f"default.replication.factor of {COPIES} or more",
        "Topics that are created without a replication factor get this one; Kafka's default is a single replica.",
        broker_setting(f"default.replication.factor={COPIES}"),
        _at_least({"default.replication.factor": COPIES}),
    ),
    Check(
        "default-min-insync",
        Severity.MEDIUM,
        BROKERS,
        "min.insync.replicas of 2 or more as the brokers' default",
        "Topics that are created without min.insync.replicas get this value; Kafka's default is 1.",
        "kafka-configs.sh {server} --alter --entity-type brokers --entity-default --add-config min.insync.replicas=2",
        _default_min_insync,
    ),
    Check(
        "consumer-offsets-topic",
        Severity.HIGH,
        BROKERS,
        f"offsets.topic.replication.factor of {COPIES} or more, while __consumer_offsets does not exist yet",
        "The first consumer group creates the topic with this. If it has one replica and that broker fails, all "
        "groups lose their offsets.",
        broker_setting(f"offsets.topic.replication.factor={COPIES}"),
        _until_created("__consumer_offsets", _at_least({"offsets.topic.replication.factor": COPIES})),
    ),
    Check(
        "transaction-state-topic",
        Severity.HIGH,
        BROKERS,
        f"transaction.state.log.replication.factor of {COPIES} and transaction.state.log.min.isr of 2 or "
        "more, while __transaction_state does not exist yet",
        "The first transaction creates the topic with these. While it is not available, no transaction can end.",
        broker_setting(f"transaction.state.log.replication.factor={COPIES}", "transaction.state.log.min.isr=2"),
        _until_created(
            "__transaction_state",
            _at_least({"transaction.state.log.replication.factor": COPIES, "transaction.state.log.min.isr": 2}),
        ),
    ),
    Check(
        "producer-acks",
        Severity.HIGH,
        CLIENTS,
        "acks=all at the producers",
        "With any other value a write counts before a second broker has it, whatever min.insync.replicas is.",
        "acks=all  # in the producer's settings",
        _declared("producer", {"acks": _ACKS}),
    ),
    Check(
        "producer-idempotence",
        Severity.MEDIUM,
        CLIENTS,
        "enable.idempotence=true at the producers",
        "Without it, a retry after a lost response writes the record twice (KIP-679).",
        "enable.idempotence=true  # in the producer's settings",
        _declared("producer", {"enable.idempotence": ("true",)}),
    ),
    Check(
        "producer-retries",
        Severity.MEDIUM,
        CLIENTS,
        f"delivery.timeout.ms of {DELIVERY_SECONDS} s or more at the producers, and retries not set",
        "While a broker restarts, its partitions have no leader for some seconds. A producer that gives up earlier "
        "drops records (Amazon MSK's client settings).",
        "delivery.timeout.ms=120000  # in the producer's settings, and remove retries",
        _retries,
    ),
    Check(
        "producer-timeouts",
        Severity.MEDIUM,
        CLIENTS,
        "delivery.timeout.ms of at least linger.ms and request.timeout.ms together at the producers",
        "Otherwise a record may expire before its first request has failed, and is dropped without a retry. Java's "
        "producer and kafka-python refuse to start with such settings.",
        "delivery.timeout.ms={value}  # in the producer's settings",
        _timeouts,
    ),
    Check(
        "producer-in-flight",
        Severity.MEDIUM,
        CLIENTS,
        "max.in.flight.requests.per.connection of 5 or less at the producers",
        "Brokers keep the order of at most five batches that are retried.",
        "max.in.flight.requests.per.connection=5  # in the producer's settings",
        _in_flight,
    ),
    Check(
        "source-data-loss",
        Severity.MEDIUM,
        CLIENTS,
        "failOnDataLoss=true at Spark's source",
        "With false, Spark silently skips records that Kafka deleted before they were read (Spark's Kafka guide).",
        '.option("failOnDataLoss", "true")  # on the stream\'s Kafka source',
        _declared("source", {"failOnDataLoss": ("true",)}, by_default=True),
    ),
    Check(
        "sink-acks",
        Severity.INFO,
        CLIENTS,
        "kafka.acks and kafka.enable.idempotence at Spark's sink not set, or all and true",
        "With other values the sink can lose records of batches that Spark has committed. In any case it writes at "
        "least once: a batch that runs again is written again (Spark's Kafka guide).",
        '.option("kafka.acks", "all").option("kafka.enable.idempotence", "true")  # on the stream\'s Kafka sink',
        _declared("sink", {"kafka.acks": _ACKS, "kafka.enable.idempotence": ("true",)}, by_default=True),
    ),
)
