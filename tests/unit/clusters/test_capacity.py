from __future__ import annotations

import pytest

from airflow_stream_provider.clusters.spark_sizes import FreeResources, ResourceRequest
from airflow_stream_provider.lifecycle.errors import SpecError


def test_spark_s_defaults_and_units() -> None:
    assert ResourceRequest.from_conf({}) == ResourceRequest(1, 1024, 2, None, 1024)
    conf = {
        "spark.driver.cores": "2",
        "spark.driver.memory": "512M",
        "spark.cores.max": "6",
        "spark.executor.cores": "3",
        "spark.executor.memory": "2gb",
    }
    assert ResourceRequest.from_conf(conf) == ResourceRequest(2, 512, 6, 3, 2048)
    # A bare number: bytes for the driver, MiB for executors.
    assert ResourceRequest.from_conf(
        {"spark.driver.memory": "1073741824", "spark.executor.memory": "512"}
    ) == ResourceRequest(1, 1024, 2, None, 512)


@pytest.mark.parametrize(
    ("key", "value"), [("spark.cores.max", "many"), ("spark.driver.cores", "0"), ("spark.executor.memory", "2 gigs")]
)
def test_values_that_cannot_be_read_name_their_key(key: str, value: str) -> None:
    with pytest.raises(SpecError, match=key):
        ResourceRequest.from_conf({key: value})


@pytest.mark.parametrize(
    ("ask", "workers", "fits"),
    [
        (ResourceRequest(1, 1024, 2, None, 1024), [FreeResources(3, 2048)], True),
        (ResourceRequest(1, 1024, 2, None, 1024), [FreeResources(2, 2048)], False),  # no core left for the driver
        (ResourceRequest(1, 1024, 2, None, 1024), [FreeResources(3, 2047)], False),  # no memory left for the executor
        (ResourceRequest(1, 1024, 2, None, 1024), [], False),
        (
            ResourceRequest(1, 1024, 4, None, 1024),
            [FreeResources(3, 2048), FreeResources(2, 1024)],
            True,
        ),  # an executor on each
        (ResourceRequest(1, 1024, 4, None, 1024), [FreeResources(3, 2048), FreeResources(2, 1023)], False),
        (ResourceRequest(1, 1024, 4, 2, 1024), [FreeResources(5, 3072)], True),  # two executors on one worker
        (ResourceRequest(1, 1024, 4, 2, 1024), [FreeResources(5, 2048)], False),
        (
            ResourceRequest(1, 1024, 4, 4, 1024),
            [FreeResources(3, 9999), FreeResources(3, 9999)],
            False,
        ),  # no worker for an executor of 4
        (
            ResourceRequest(1, 1024, 3, 2, 1024),
            [FreeResources(3, 9999)],
            True,
        ),  # 3 // 2: one executor is all it can get
        # The driver must go to the second one, or the executor has no place.
        (ResourceRequest(1, 1024, 4, 4, 4096), [FreeResources(4, 4096), FreeResources(1, 1024)], True),
    ],
)
def test_a_job_fits_only_if_driver_and_executors_have_room(
    ask: ResourceRequest, workers: list[FreeResources], fits: bool
) -> None:
    assert ask.fits(workers) is fits


def test_a_request_is_described_in_words() -> None:
    assert str(ResourceRequest(1, 512, 4, 2, 1024)) == (
        "1 core and 512 MiB for the driver, 4 cores in executors of 2 with 1024 MiB each for the executors"
    )
