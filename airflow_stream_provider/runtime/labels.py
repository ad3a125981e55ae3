"""The name of a query in records, heartbeats and errors: no two queries of a script have the same label."""

from __future__ import annotations

from collections.abc import Iterable


def label_of(name: str, checkpoint: str, others: Iterable[tuple[str, str]]) -> str:
    """Return the label of a query: its name, or the end of its checkpoint's path, as long as it takes to be unique.

    It depends on what the queries are, not on their order, so that it stays the same from release to release.

    :param name: the name that the script gave it; empty when it gave none.
    :param others: name and checkpoint of the other queries. No two have the same checkpoint.
    """
    others = list(others)
    if name and all(name != other for other, _ in others):
        return name
    parts = _parts(checkpoint)
    for length in range(1, len(parts)):
        end = parts[-length:]
        label = "/".join(end)
        if all(label != other and _parts(path)[-length:] != end for other, path in others):
            return label
    return checkpoint


def _parts(checkpoint: str) -> list[str]:
    return checkpoint.rstrip("/").split("/")
