"""Turn errors that no retry can cure into Airflow's failure without retries."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from airflow.sdk.exceptions import AirflowFailException

from airflow_stream_provider.lifecycle.errors import SpecError


@contextlib.contextmanager
def failing_without_retry() -> Iterator[None]:
    """Fail the task without its retries on a SpecError: a person has to change something first."""
    try:
        yield
    except SpecError as error:
        raise AirflowFailException(str(error)) from error
