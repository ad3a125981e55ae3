from __future__ import annotations

import pytest

from chaos.plan import CHECKPOINT_EXTRAS, Trigger, cells, extras, log_target
from chaos.states import STATES
from devstack.places import Pair


def test_no_cell_comes_twice() -> None:
    for pair in (Pair(), Pair("kafka", "hdfs")):
        assert len(set(cells(pair))) == len(cells(pair))


def test_a_trigger_is_a_sentence() -> None:
    assert Trigger("ready", 0.5).sentence == "0.50 s after the stream is ready"
    assert Trigger("released", 0.0, "holder", 1).sentence == "as soon as the holder has made append 1 of this scenario"
    beside = Trigger("submitted", with_standby=True)
    assert beside.sentence == "as soon as the stream is submitted and its standby has a name"


@pytest.mark.parametrize("storage", ["file", "hdfs"])
def test_a_control_folder_can_fail_and_a_topic_fails_with_its_broker(storage: str) -> None:
    files, kafka = Pair(storage=storage), Pair("kafka", storage)
    assert (log_target(files), log_target(kafka)) == ("control", "broker")
    assert {cell.kind for cell in cells(files) if cell.target == "control"} == {"hang", "full"}
    assert [cell for cell in cells(kafka) if cell.target == "control"] == []
    moved = set(CHECKPOINT_EXTRAS) if storage == "file" else set()
    assert set(extras(files)) == {"torn_heartbeat", "clock_jump", "away", "read_only", *moved}
    assert set(extras(kafka)) == {"clock_jump", *moved}


@pytest.mark.parametrize("control", ["file", "kafka"])
def test_only_a_storage_that_is_a_process_is_frozen(control: str) -> None:
    assert [cell for cell in cells(Pair(control)) if cell.target == "storage"] == []
    frozen = [cell for cell in cells(Pair(control, "hdfs")) if cell.target == "storage"]
    assert [(cell.state, cell.kind) for cell in frozen] == [(state, "freeze") for state in STATES]
