"""The script of docs/start.md, and its change, in real drivers: handed over, rolled back, each tick once."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest

from devstack.drivers import hand_run_stream, wait_for
from tests.support.hand_run import show

PAGE = (Path(__file__).parents[3] / "docs" / "start.md").read_text()


def ticks(folder: Path) -> list[int]:
    """What the file sink has committed, as a reader of Spark's sees it."""
    found = []
    for log in sorted((folder / "output" / "_spark_metadata").glob("[0-9]*"), key=lambda path: len(path.name)):
        for line in log.read_text().splitlines()[1:]:
            path = Path(json.loads(line)["path"].removeprefix("file://"))
            found.append((path, [json.loads(row)["value"] for row in path.read_text().splitlines()]))
    return [value for values in dict(found).values() for value in values]


def more_than(number: int, folder: Path) -> bool:
    return len(ticks(folder)) > number


@pytest.mark.system  # two drivers
def test_the_script_of_the_page_is_handed_over_and_back(tmp_path: Path) -> None:
    (script,) = re.findall(r"^```py\n(.*?)^```", PAGE, re.M | re.S)
    (change,) = re.findall(r"`(\.withColumn\(.*?\))` before `\.writeStream`", PAGE)
    old, new = tmp_path / "old" / "ticks.py", tmp_path / "new" / "ticks.py"
    for path, text in ((old, script), (new, script.replace("ticks.writeStream", f"ticks{change}.writeStream"))):
        path.parent.mkdir()
        path.write_text(text)
    with hand_run_stream(tmp_path) as stream:
        stream.deploy("ticks-1", old, str(tmp_path / "data"))
        one = stream.standby("ticks-1")
        stream.hand_over(one)
        wait_for("ticks", partial(more_than, 20, tmp_path / "data"))
        stream.deploy("ticks-2", new, str(tmp_path / "data"))
        two = stream.standby("ticks-2")
        for holder in (two, one):
            stream.hand_over(holder)
            wait_for("more ticks", partial(more_than, len(ticks(tmp_path / "data")) + 20, tmp_path / "data"))
        show(stream)
    found = sorted(ticks(tmp_path / "data"))
    assert found == list(range(len(found)))
