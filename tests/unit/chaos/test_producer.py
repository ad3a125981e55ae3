from __future__ import annotations

from pathlib import Path

from chaos.producer import Produced, SurvivingProducer, read_journal


def test_the_journal_says_where_each_order_is_or_that_it_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "produced.jsonl"
    path.write_text("[0, 1, 0]\n[3, 1, 1]\n[1]\n")
    assert read_journal(path) == Produced({0: (1, 0), 3: (1, 1)}, frozenset({1, 2}))


def test_an_empty_journal_is_that_of_a_producer_that_sent_nothing(tmp_path: Path) -> None:
    path = tmp_path / "produced.jsonl"
    assert SurvivingProducer("127.0.0.1:1", "orders", 1, path).stop() == 0
    assert read_journal(path) == Produced({}, frozenset())
