from __future__ import annotations

from pathlib import Path

from chaos.journal import Journal, read_journal


def test_entries_are_read_back_in_order(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "run" / "journal.jsonl")
    journal.note("started", seed=1, minutes=5, commit="abc")
    journal.problem("It broke.")
    first, second = journal.entries()
    assert (first["what"], first["seed"], first["commit"]) == ("started", 1, "abc")
    assert (second["what"], second["says"]) == ("problem", "It broke.")
    assert first["at"] <= second["at"]


def test_the_half_line_of_a_killed_run_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    Journal(path).note("started", seed=1)
    with path.open("a") as file:
        file.write('{"what": "fau')
    assert [entry["what"] for entry in read_journal(path)] == ["started"]
