"""Sentences for people, each asserted once: one committed text file per verb, of a table of situations.

`UPDATE_GOLDEN=1` writes the files as they would be; read the difference before you commit it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def assert_golden(test_file: str, verb: str, said: Mapping[str, object]) -> None:
    """Compare what is said in each situation with the file of the verb, in the folder `golden` beside the test.

    :param said: the text by situation, which is its heading in the file.
    """
    path = Path(test_file).parent / "golden" / f"{verb}.txt"
    found = "".join(f"== {situation}\n{text}\n" for situation, text in said.items())
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(found, encoding="utf-8")
    assert path.exists(), f"UPDATE_GOLDEN=1 writes {path.name}"
    assert found == path.read_text(encoding="utf-8"), "if these words are meant, write them with UPDATE_GOLDEN=1"
