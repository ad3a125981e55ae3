from __future__ import annotations

import json
import shlex

import pytest

from airflow_stream_provider.audit.kafka.commands import (
    REASSIGN,
    broker_setting,
    fill_template,
    reassigned,
    tool_arguments,
)
from airflow_stream_provider.audit.kafka.facts import BrokerFacts, Settings, Topic


def test_a_move_of_replicas_is_planned_by_kafkas_tool_and_started_by_a_person() -> None:
    """A finding never starts a move of whole partitions over the network."""
    brokers = [BrokerFacts(number, None, False, Settings("")) for number in (1, 2, 3)]
    command = fill_template(REASSIGN, ("--bootstrap-server", "h:1"), reassigned(Topic("a b"), brokers))
    words = shlex.split(command, comments=True)
    assert json.loads(words[2]) == {"topics": [{"topic": "a b"}], "version": 1}
    assert words[-3:] == ["--broker-list", "1,2,3", "--generate"]
    assert "--execute" not in words


def test_a_brokers_setting_is_written_to_no_file() -> None:
    """A managed cluster has no server.properties; nor does the machine on which a finding is read."""
    assert broker_setting("a=1", "b=2").startswith("a=1 b=2  # in every broker's server.properties, or")


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ({"bootstrap.servers": "a:1,b:2"}, ("--bootstrap-server", "a:1,b:2")),
        ({"bootstrap.servers": "a,b:2"}, ("--bootstrap-server", "a:9092,b:2")),
        (
            {"bootstrap.servers": "a:1", "security.protocol": "sasl_ssl", "sasl.password": "hunter2"},
            ("--bootstrap-server", "a:1", "--command-config", "client.properties"),
        ),
    ],
)
def test_tool_arguments_have_the_address_and_no_secret(extra: dict[str, str], arguments: tuple[str, ...]) -> None:
    assert tool_arguments(extra) == arguments


def test_a_template_is_quoted_for_the_shell() -> None:
    template = "x {server} {topic} {pattern} {value}"
    values = {"topic": "a.b", "value": "1 2"}
    assert (
        fill_template(template, ("--bootstrap-server", "h:1"), values) == r"x --bootstrap-server h:1 a.b 'a\.b' '1 2'"
    )
