"""Places on storage that is not mounted here; what is read and written there is in tests/integration/runtime."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from airflow_stream_provider.checkpoint.files import RemotePath

FILES: Any = object()
ROOT = RemotePath("hdfs://n:9820", PurePosixPath("/a/live"), FILES)


def test_a_remote_path_is_built_as_a_local_one_is() -> None:
    file = ROOT / "offsets" / "7"
    assert str(file) == "hdfs://n:9820/a/live/offsets/7"
    assert (file.name, str(file.parent), file.parts[-2:]) == ("7", "hdfs://n:9820/a/live/offsets", ("offsets", "7"))
    assert str(ROOT.with_name("live.owner")) == "hdfs://n:9820/a/live.owner"
    assert ROOT in file.parents
    assert file.relative_to(ROOT) == PurePosixPath("offsets/7")
    assert file.files is FILES


def test_one_place_is_one_place_whoever_reaches_it() -> None:
    other: Any = object()
    assert RemotePath("hdfs://n:9820", PurePosixPath("/a/live"), other) == ROOT
    assert RemotePath("hdfs://m:9820", PurePosixPath("/a/live"), FILES) != ROOT


@pytest.mark.parametrize("folder", [Path("/a"), RemotePath("hdfs://m:9820", PurePosixPath("/a"), FILES)])
def test_nothing_is_below_a_folder_elsewhere(folder: Any) -> None:
    with pytest.raises(ValueError, match="is not below"):
        ROOT.relative_to(folder)
