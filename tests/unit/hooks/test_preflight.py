"""What is found before an upgrade: one thing that refuses is enough, the rest is shown."""

from __future__ import annotations

import pytest

from airflow_stream_provider.hooks.preflight import Finding, PreflightFailed, refuse

WARNING = Finding("The topic has one replica.", "Give it three.")


def test_what_does_not_refuse_is_shown() -> None:
    assert refuse([WARNING, Finding("Not known.")]) == ["The topic has one replica. Give it three.", "Not known."]
    assert refuse([]) == []


def test_the_first_that_refuses_is_the_error() -> None:
    with pytest.raises(PreflightFailed) as caught:
        refuse([WARNING, Finding("It is broken.", "Mend it.", refuses=True), Finding("So is this.", refuses=True)])
    assert str(caught.value) == "It is broken. Nothing was touched. Mend it."
