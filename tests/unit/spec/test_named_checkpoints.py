from __future__ import annotations

import pytest

from airflow_stream_provider.spec.folder_check import named_checkpoints


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ([], {}),
        (["--kafka", "k:9092", "--checkpoint", "/data/a"], {"/data/a": 3}),
        (["--checkpoint=/data/a/"], {"/data/a": 0}),
        (["--Checkpoint_Location", "file:///data//a"], {"/data/a": 1}),
        (["--checkpointLocation", "s3://bucket/a"], {"s3a://bucket/a": 1}),
        (["--checkpoint-path=hdfs://nn:8020/a", "--checkpoint", "/b"], {"hdfs://nn/a": 0, "/b": 2}),
        (["--checkpoint"], {}),
        (["--checkpoint", " "], {}),
        (["--checkpoint-root", "/data", "--checkpoint-dir=/data", "checkpoint", "/data", "--checkpoints", "3"], {}),
    ],
)
def test_what_the_options_name(arguments: list[str], found: dict[str, int]) -> None:
    assert named_checkpoints(arguments) == found
