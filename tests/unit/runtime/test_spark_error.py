"""What is shown of PySpark's errors."""

from __future__ import annotations

import pytest

from airflow_stream_provider.runtime import spark_error
from airflow_stream_provider.runtime.spark_error import message_of


class Described(Exception):
    desc = (
        "[UNRESOLVED_COLUMN] There is no column x.\n=== Streaming Query ===\n\tat org.apache.spark.Foo(Foo.scala:1)\n"
    )


def test_the_java_stack_is_left_out() -> None:
    assert message_of(Described("as Python prints it")) == "[UNRESOLVED_COLUMN] There is no column x."


def test_other_errors_are_shown_as_they_are() -> None:
    assert message_of(ValueError("no such topic")) == "no such topic"
    assert message_of(ValueError("x" * 2000)) == "x" * 1500


def test_a_huge_error_is_not_looked_through_for_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_through: list[int] = []
    monkeypatch.setattr(spark_error, "redact", lambda text: looked_through.append(len(text)) or text)
    assert message_of(ValueError("the record " + "x" * 2**24)).startswith("the record xxx")
    assert looked_through == [2**16]


@pytest.mark.parametrize(
    "plan",
    [
        "'Project ['data]\n+- StreamingRelationV2 x, [ssl=hunter2], Map(a -> hunter2)",
        "Write [hunter2]\n:- 'Join Inner\n:  :- Relation hunter2\n:  +- Filter\n+- Project",
        "StreamingRelation DataSource(kafka,List(),Map(a.b -> hunter2),None), kafka, [key#0]",
    ],
)
def test_the_plan_behind_a_message_goes_because_sources_show_their_options_there(plan: str) -> None:
    message = "[UNRESOLVED_COLUMN] There is no x. SQLSTATE: 42703; line 1 pos 7;"
    assert (
        message_of(ValueError(f"{message}\n{plan}\n\nValueError: It is over."))
        == f"{message}\n\nValueError: It is over."
    )


def test_a_message_that_has_a_list_keeps_its_first_line() -> None:
    assert message_of(ValueError("Relations differ\n+- a\n")) == "Relations differ"
    said = "Project x\nFilter y\n- z"
    assert message_of(ValueError(said)) == said
    assert message_of(ValueError("Map(kafka.ssl.truststore.password -> hunter2, subscribe -> t)")).count("hunter2") == 0


def test_what_names_the_error_stays_and_stack_and_plan_go() -> None:
    text = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted:
Traceback (most recent call last):
  File "app.py", line 3, in double
    return int(value)
ValueError: invalid literal for int()

\tat org.apache.spark.Foo(Foo.scala:1)
Driver stacktrace:
=== Streaming Query ===
Identifier: totals
Logical Plan:
Aggregate [customer#1], [customer#1, sum(amount#2L) AS total#3L]
"""
    assert message_of(ValueError(text)) == (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted:\nValueError: invalid literal for int()"
    )
