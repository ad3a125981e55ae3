"""What is shown of PySpark's errors."""

from __future__ import annotations

import pytest

from airflow_stream_provider.lifecycle.heartbeat import RANGES, OffsetRange
from airflow_stream_provider.runtime import spark_error
from airflow_stream_provider.runtime.spark_error import ERROR_KEPT, failure_of, message_of


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


def streaming(message: str, committed: str, available: str) -> ValueError:
    """As PySpark 4.0 shows a StreamingQueryException."""
    return ValueError(
        f"{message}\n=== Streaming Query ===\nIdentifier: alerts [id = 1, runId = 2]\n"
        f"Current Committed Offsets: {{{committed}}}\nCurrent Available Offsets: {{{available}}}\n\n"
        "Current State: ACTIVE\nThread State: RUNNABLE\n\nLogical Plan:\n~WriteToMicroBatchDataSource x"
    )


def test_the_offsets_of_the_failing_batch_are_kept_by_partition() -> None:
    """Found by a review: they were thrown away, and nobody could say which record in partition 3 is bad."""
    kafka = 'KafkaV2[Subscribe[orders, a: b]]: {"orders":{"3":%s,"1":7,"0":%s}}'
    found = failure_of(streaming("It failed.", kafka % (100, 5), kafka % (250, 5)))
    assert found.ranges == (OffsetRange("orders-3", "100", "250"),)
    assert str(found) == "It failed. The batch reads orders-3 from 100 to 250."


def test_other_sources_and_partitions_that_come_or_go_are_kept_too() -> None:
    before = 'FileStreamSource[file:/in?password=hunter2]: {"logOffset":4},KafkaV2[Assign[t-0, t-1]]: {"t":{"0":9}}'
    after = (
        'FileStreamSource[file:/in?password=hunter2]: {"logOffset":5},KafkaV2[Assign[t-0, t-1]]: {"t":{"1":2}},Rate: 6'
    )
    assert failure_of(streaming("x", before, after)).ranges == (
        OffsetRange("FileStreamSource[file:/in?password=***", '{"logOffset":4}', '{"logOffset":5}'),
        OffsetRange("t-0", "9", ""),
        OffsetRange("t-1", "", "2"),
        OffsetRange("Rate", "", "6"),
    )
    assert failure_of(streaming("No batch is planned", before, before)).ranges == ()
    assert failure_of(streaming("First", "", 'K: {"t":{"0":2}}')).ranges == (OffsetRange("t-0", "", "2"),)
    assert failure_of(ValueError("no such query")).ranges == ()


def test_a_failure_is_bounded_and_begins_with_what_the_task_raised() -> None:
    ends = ",".join(f'"{number}":9' for number in range(RANGES + 7))
    job = "Job aborted due to stage failure: " + "Lost task " * 100
    stack = 'Traceback (most recent call last):\n  File "app.py", line 3, in f'
    task = f"PythonException: {stack}\nBadRecordError: 7, token=hunter2\n"
    found = failure_of(streaming(f"{job}\n{task}", "", f'K: {{"t":{{{ends}}}}}'))
    assert (found.cause, len(found.error) <= ERROR_KEPT) == ("BadRecordError: 7, token=***", True)
    assert (len(found.ranges), found.left_out) == (RANGES, 7)
    assert str(found).endswith("from ? to 9 and 7 more.")


def test_the_first_error_of_a_jvm_is_the_cause() -> None:
    outer, middle = ValueError("[STREAM_FAILED] It ended"), ValueError("Writing job aborted")
    outer.__dict__["_cause"], middle.__dict__["_cause"] = middle, OSError("No space left on device")
    assert failure_of(outer).cause == "No space left on device"


def test_where_python_has_called_back_the_frames_go_and_the_error_stays() -> None:
    text = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
RuntimeError: sink away
"""
    assert message_of(ValueError(text)) == (
        "An exception was raised by the Python Proxy. Return Message:\nRuntimeError: sink away"
    )
