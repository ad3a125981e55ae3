from __future__ import annotations

import pytest

from airflow_stream_provider.clusters.capacity import Ask, Free
from airflow_stream_provider.lifecycle.errors import SpecError


def test_spark_s_defaults_and_units() -> None:
    assert Ask.of({}) == Ask(1, 1024, 2, None, 1024)
    conf = {
        "spark.driver.cores": "2",
        "spark.driver.memory": "512M",
        "spark.cores.max": "6",
        "spark.executor.cores": "3",
        "spark.executor.memory": "2gb",
    }
    assert Ask.of(conf) == Ask(2, 512, 6, 3, 2048)
    # A bare number: bytes for the driver, MiB for executors.
    assert Ask.of({"spark.driver.memory": "1073741824", "spark.executor.memory": "512"}) == Ask(1, 1024, 2, None, 512)


@pytest.mark.parametrize(
    ("key", "value"), [("spark.cores.max", "many"), ("spark.driver.cores", "0"), ("spark.executor.memory", "2 gigs")]
)
def test_values_that_cannot_be_read_name_their_key(key: str, value: str) -> None:
    with pytest.raises(SpecError, match=key):
        Ask.of({key: value})


@pytest.mark.parametrize(
    ("ask", "workers", "fits"),
    [
        (Ask(1, 1024, 2, None, 1024), [Free(3, 2048)], True),
        (Ask(1, 1024, 2, None, 1024), [Free(2, 2048)], False),  # no core left for the driver
        (Ask(1, 1024, 2, None, 1024), [Free(3, 2047)], False),  # no memory left for the executor
        (Ask(1, 1024, 2, None, 1024), [], False),
        (Ask(1, 1024, 4, None, 1024), [Free(3, 2048), Free(2, 1024)], True),  # an executor on each
        (Ask(1, 1024, 4, None, 1024), [Free(3, 2048), Free(2, 1023)], False),
        (Ask(1, 1024, 4, 2, 1024), [Free(5, 3072)], True),  # two executors on one worker
        (Ask(1, 1024, 4, 2, 1024), [Free(5, 2048)], False),
        (Ask(1, 1024, 4, 4, 1024), [Free(3, 9999), Free(3, 9999)], False),  # no worker for an executor of 4
        (Ask(1, 1024, 3, 2, 1024), [Free(3, 9999)], True),  # 3 // 2: one executor is all it can get
        # The driver must go to the second one, or the executor has no place.
        (Ask(1, 1024, 4, 4, 4096), [Free(4, 4096), Free(1, 1024)], True),
    ],
)
def test_whether_a_job_fits(ask: Ask, workers: list[Free], fits: bool) -> None:
    assert ask.fits(workers) is fits


def test_what_is_asked_can_be_read() -> None:
    assert str(Ask(1, 512, 4, 2, 1024)) == (
        "1 core and 512 MiB for the driver, 4 cores in executors of 2 with 1024 MiB each for the executors"
    )
