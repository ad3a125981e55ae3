"""Does the same for several queries at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.runtime.managed_query import ManagedQuery

T = TypeVar("T")


def side_by_side(work: Callable[[ManagedQuery], T], queries: Sequence[ManagedQuery]) -> list[T]:
    """Do the work for all queries at the same time.

    :raises StreamError: the work failed for some query; the first error of all, raised when all are done.
    """
    results: list[Any] = [None] * len(queries)
    errors: list[tuple[str, BaseException]] = []

    def run(position: int) -> None:
        try:
            results[position] = work(queries[position])
        except BaseException as error:  # noqa: BLE001 - handed to the caller below
            errors.append((queries[position].label, error))

    threads = [threading.Thread(target=run, args=(i,), name=f"airflow-stream-{q.label}") for i, q in enumerate(queries)]
    for position, thread in enumerate(threads):
        try:
            thread.start()
        except RuntimeError:
            # The machine has no thread left. Whoever calls must not go on while some of the work is under way.
            run(position)
    for thread in threads:
        if thread.ident is not None:
            thread.join()
    if errors:
        label, error = errors[0]
        if isinstance(error, StreamError):
            raise error
        raise StreamError(
            f"The query {label} failed: {str(error) or type(error).__name__}",
            next_step="Correct what the error names in the script, its sources or its sink. The driver's log has the "
            "whole stack trace.",
        ) from error
    return results
