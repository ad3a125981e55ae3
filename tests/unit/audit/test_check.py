"""Severities, and the commands of findings."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from airflow_stream_provider.audit import Severity
from airflow_stream_provider.audit.report import judge
from airflow_stream_provider.lifecycle.errors import SpecError
from tests.support.audited import NEEDS, facts, partition, topic


@pytest.mark.parametrize(("label", "severity"), [("high", Severity.HIGH), ("INFO", Severity.INFO)])
def test_severities_have_names(label: str, severity: Severity) -> None:
    assert Severity.of(label) is severity


def test_an_unknown_severity_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SpecError, match=r"'bad' is not a severity\. Use one of info, low"):
        Severity.of("bad")


def test_names_are_quoted_for_the_shell_and_as_regular_expressions() -> None:
    odd = replace(topic("orders.v1 $(rm)"), partitions=(partition(0, leader=-1),))
    report = judge(facts(topics=(odd,)), NEEDS)
    fix = next(f.fix for f in report.findings if f.check == "offline-partitions")
    assert shlex.split(fix, comments=True)[5] == r"orders\.v1 $(rm)"
