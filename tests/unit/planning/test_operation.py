"""What a person may ask by hand, and the words that he gives with it."""

from __future__ import annotations

import pytest

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.planning.operation import (
    MAX_PERSON,
    MAX_REASON,
    Operation,
    check_job,
    check_person,
    check_reason,
)


@pytest.mark.parametrize("operation", Operation)
def test_each_has_its_words(operation: Operation) -> None:
    assert operation.description.endswith(".")
    assert operation.past[0].isupper()


def test_a_reason_is_one_plain_line() -> None:
    assert check_reason("  disk of\n w3 \x1b[1m ") == "disk of w3 \ufffd[1m"
    assert check_reason("x" * MAX_REASON)


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("", "There is no reason"),
        (" \n", "There is no reason"),
        ("x" * (MAX_REASON + 1), "The reason has 501 characters, and 500 are allowed"),
        ("rotated password=hunter2", "looks like a secret"),
    ],
)
def test_what_is_no_reason_is_refused(reason: str, says: str) -> None:
    with pytest.raises(SpecError, match=says) as error:
        check_reason(reason)
    assert "hunter2" not in str(error.value)


def test_a_person_has_a_name() -> None:
    assert check_person(" Ada  Lovelace ") == "Ada Lovelace"
    assert check_person("") == ""
    for name in ("x" * (MAX_PERSON + 1), "password=hunter2"):
        with pytest.raises(SpecError, match="cannot be used"):
            check_person(name)


def test_a_job_has_one_id() -> None:
    assert check_job(" driver-20261121023732-0002 ") == "driver-20261121023732-0002"
    assert check_job("") == ""
    with pytest.raises(SpecError, match="'None' is what a template makes"):
        check_job("None")
    for id in ("driver-1,driver-2", "driver-1 driver-2", "../driver", "a/b", "x" * 300, "$(id)"):
        with pytest.raises(SpecError, match="is not the id of one job"):
            check_job(id)


def test_the_yaml_has_a_say_in_what_comes_to_hold() -> None:
    by_log = {Operation.STOP, Operation.ROLL_BACK, Operation.ABORT, Operation.FENCE, Operation.RETIRE}
    assert {each for each in Operation if not each.brings_up} == by_log
