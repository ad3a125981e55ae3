"""Kafka's answers for each partition, topic, broker or group, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from kafka import TopicPartition

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")

# Kafka's error codes; NO_ANSWER is ours.
UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_ID = 100
THROTTLED = 89
TOPIC_DENIED = 29
NO_ANSWER = -1


@dataclass(frozen=True)
class Problem:
    """Why one partition, topic, broker or group has no answer.

    :param code: Kafka's error code, or NO_ANSWER if the broker did not answer.
    :param reason: the reason as a sentence.
    """

    code: int
    reason: str


class Answers(dict[K, V], Generic[K, V]):
    """Kafka's answers by key. `problems` has the reason for each key without an answer."""

    def __init__(self) -> None:
        super().__init__()
        self.problems: dict[K, Problem] = {}

    def refuse(self, key: K, code: int, what: str) -> None:
        """Note that Kafka has answered with an error code; `what`: see `error_sentence`."""
        self.problems[key] = Problem(code, error_sentence(code, what))


def take(
    leader: int,
    response: Any,
    asked: Mapping[TopicPartition, V],
    answers: Callable[[Any], Iterable[tuple[str, int, int, R]]],
    found: Answers[TopicPartition, R],
) -> dict[TopicPartition, V]:
    """Take what a leader has answered into `found`, and return what may be asked again; see `Requests.ask_leaders`."""
    from kafka import TopicPartition
    from kafka.errors import RetriableError, for_code

    missing = dict(asked)
    again: dict[TopicPartition, V] = {}
    for topic, number, error_code, value in answers(response):
        partition = TopicPartition(topic, number)
        missing.pop(partition, None)
        if error_code == 0:
            found[partition] = value
            continue
        found.refuse(partition, error_code, named(topic, number))
        if issubclass(for_code(error_code), RetriableError):
            again[partition] = asked[partition]
    # A Fetch that a quota throttles is answered without an error, and without partitions.
    throttled = getattr(response, "throttle_time_ms", 0) / 1000
    found.problems.update({each: _left_out(leader, each, throttled) for each in missing})
    return {**again, **missing}


def named(topic: str, partition: int) -> str:
    """Return a partition's name for a sentence: ``partition 0 of the topic orders``."""
    return f"partition {partition} of the topic {topic}"


def error_sentence(code: int, what: str) -> str:
    """Return the meaning of one of Kafka's error codes as a sentence.

    :param what: what the request was about, such as ``topic orders``.
    """
    from kafka.errors import AuthorizationError, for_code

    if code == UNKNOWN_TOPIC_OR_PARTITION:
        return f"There is no {what}."
    if code == LEADER_NOT_AVAILABLE:
        return f"{what[0].upper()}{what[1:]} has no leader."
    error = for_code(code)
    if issubclass(error, AuthorizationError):
        return f"Kafka denies the connection's user access to the {what}: {error.__name__}."
    return f"Kafka does not answer for the {what}: {error.__name__}."


def no_answer(broker: int, error: Exception) -> Problem:
    """Return the problem of everything that a broker was asked about but did not answer.

    :raises SaslAuthenticationFailedError: the broker refuses the credentials. They may have been replaced since this
        client was opened: the answer is a new client, and not to try them at every broker, which may lock the user out.
    """
    from kafka.errors import IncompatibleBrokerVersion, SaslAuthenticationFailedError, ThrottlingQuotaExceededError

    if isinstance(error, SaslAuthenticationFailedError):
        raise error
    if isinstance(error, IncompatibleBrokerVersion):
        needed = "Kafka 3.0 or later is needed, and 3.1 for a control log."
        return Problem(NO_ANSWER, f"Broker {broker} is too old: {needed}")
    if isinstance(error, ThrottlingQuotaExceededError):
        return Problem(THROTTLED, f"A quota of Kafka throttles this client: broker {broker} takes no request now.")
    return Problem(NO_ANSWER, f"Broker {broker} does not answer: {error}".rstrip(". ") + ".")


def _left_out(broker: int, partition: TopicPartition, throttled: float) -> Problem:
    """Return the problem of a partition that is missing in an answer.

    :param throttled: seconds for which the broker throttles this client, as it says with its answer.
    """
    which = named(partition.topic, partition.partition)
    if throttled:
        return Problem(
            THROTTLED,
            f"A quota of Kafka throttles this client: broker {broker} answers nothing for {which}, and takes no "
            f"request for {throttled:.1f} s.",
        )
    return Problem(NO_ANSWER, f"Broker {broker} answers nothing for {which}.")
