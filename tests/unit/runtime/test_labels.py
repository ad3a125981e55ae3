"""Labels: unique, and the same whatever the order in which a script starts its queries."""

from __future__ import annotations

import itertools

import pytest

from airflow_stream_provider.runtime.gate import label_of

Query = tuple[str, str]


@pytest.mark.parametrize(
    ("queries", "labels"),
    [
        ([("", "/data/orders")], ["orders"]),
        ([("lines", "/data/orders/")], ["lines"]),
        ([("", "/a/checkpoint"), ("", "/b/checkpoint/")], ["a/checkpoint", "b/checkpoint"]),
        ([("", "/a/cp"), ("", "/b/cp"), ("", "/c/cp"), ("d", "/d/cp")], ["a/cp", "b/cp", "c/cp", "d"]),
        ([("", "/x/a/cp"), ("", "/y/a/cp")], ["x/a/cp", "y/a/cp"]),
        ([("", "/a/cp"), ("", "/x/a/cp")], ["/a/cp", "x/a/cp"]),
        ([("", "a/cp"), ("", "/x/a/cp")], ["a/cp", "x/a/cp"]),
        ([("checkpoint", "/a/one"), ("", "/b/checkpoint")], ["checkpoint", "b/checkpoint"]),
        ([("twin", "/a/one"), ("twin", "/a/two")], ["one", "two"]),
        ([("", "file:///a/cp"), ("", "file:///b/cp")], ["a/cp", "b/cp"]),
    ],
)
def test_labels(queries: list[Query], labels: list[str]) -> None:
    assert len(set(labels)) == len(labels)
    for order in itertools.permutations(zip(queries, labels, strict=True)):
        for (name, checkpoint), label in order:
            others = [query for query, _ in order if query != (name, checkpoint)]
            assert label_of(name, checkpoint, others) == label
