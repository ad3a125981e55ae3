from __future__ import annotations

from chaos.plan import Trigger, cells


def test_no_cell_comes_twice() -> None:
    assert len(set(cells())) == len(cells())


def test_a_trigger_is_a_sentence() -> None:
    assert Trigger("ready", 0.5).sentence == "0.50 s after the stream is ready"
    assert Trigger("released", 0.0, "holder", 1).sentence == "as soon as the holder has made append 1 of this scenario"
    beside = Trigger("submitted", with_standby=True)
    assert beside.sentence == "as soon as the stream is submitted and its standby has a name"
