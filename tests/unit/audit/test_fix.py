from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_stream_provider.audit.facts import BrokerFacts, Partition, Settings, Topic
from airflow_stream_provider.audit.fix import fill_template, reassignment, template_for_docs, tool_arguments

replica_sets = st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True)


def brokers(racks: dict[int, str | None], fenced: set[int] = frozenset()) -> list[BrokerFacts]:  # type: ignore[assignment]
    return [BrokerFacts(number, rack, number in fenced, Settings("")) for number, rack in racks.items()]


def planned(topic: Topic, there: list[BrokerFacts], copies: int = 3) -> list[list[int]]:
    return [each["replicas"] for each in json.loads(reassignment(topic, there, copies))["partitions"]]


def topic(*replicas: list[int]) -> Topic:
    return Topic("t", tuple(Partition(n, each[0], tuple(each), tuple(each)) for n, each in enumerate(replicas)))


@given(
    st.lists(replica_sets, min_size=1, max_size=8),
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=6, max_size=6),
    st.sets(st.integers(1, 6), max_size=3),
)
def test_a_plan_keeps_leaders_has_no_duplicates_and_spreads_over_racks(
    replicas: list[list[int]], racks: list[str], fenced: set[int]
) -> None:
    there = brokers(dict(enumerate(racks, start=1)), fenced)
    for before, after in zip(replicas, planned(topic(*replicas), there), strict=True):
        usable = set(range(1, 7)) - fenced | set(before)
        assert after[0] == before[0]
        assert len(set(after)) == len(after) == min(max(3, len(before)), len(usable))
        assert set(after) <= usable, "moved to a broker that does not serve"
        names = {racks[broker - 1] for broker in usable}
        assert len({racks[broker - 1] for broker in after}) == min(len(after), len(names))


@given(st.lists(replica_sets, min_size=1, max_size=8))
def test_without_racks_nothing_moves(replicas: list[list[int]]) -> None:
    there = brokers(dict.fromkeys(range(1, 7)))
    for before, after in zip(replicas, planned(topic(*replicas), there), strict=True):
        assert set(before) <= set(after)


def test_new_copies_are_spread_over_the_brokers() -> None:
    after = planned(topic(*([1] for _ in range(10))), brokers(dict.fromkeys(range(1, 7))))
    loads = [sum(broker in each for each in after) for broker in range(2, 7)]
    assert loads == [4] * 5


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ({"bootstrap.servers": "a:1,b:2"}, ("--bootstrap-server", "a:1,b:2")),
        (
            {"bootstrap.servers": "a:1", "security.protocol": "sasl_ssl", "sasl.password": "hunter2"},
            ("--bootstrap-server", "a:1", "--command-config", "client.properties"),
        ),
    ],
)
def test_tool_arguments_have_the_address_and_no_secret(extra: dict[str, str], arguments: tuple[str, ...]) -> None:
    assert tool_arguments(extra) == arguments


def test_a_template_is_quoted_for_the_shell_and_in_capitals_for_the_docs() -> None:
    template = "x {server} {topic} {pattern} {value}"
    values = {"topic": "a.b", "value": "1 2"}
    assert (
        fill_template(template, ("--bootstrap-server", "h:1"), values) == r"x --bootstrap-server h:1 a.b 'a\.b' '1 2'"
    )
    assert template_for_docs(template) == "x --bootstrap-server HOST:PORT TOPIC TOPIC VALUE"
