"""Copies in the store by many threads at once; a real store is in the integration test."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from airflow_stream_provider.runtime.hadoop_texts import ServerSideCopy


def test_a_thread_goes_on_when_another_one_is_refused_meanwhile_with_a_stand_in_for_s3a() -> None:
    copied: list[Any] = []
    builder = SimpleNamespace(build=lambda: "request")
    requests = SimpleNamespace(newCopyObjectRequestBuilder=lambda *_: builder)

    class RefusedMeanwhile(ServerSideCopy):
        looks = iter([SimpleNamespace(getObjectMetadata=lambda file: "found"), None])
        _s3a = property(lambda self: next(self.looks))
        _client = SimpleNamespace(copyObject=copied.append)
        _context = SimpleNamespace(pathToKey=str)
        _requests = requests

    assert RefusedMeanwhile.__new__(RefusedMeanwhile).copied("a", "b", 1)
    assert copied == ["request"]
