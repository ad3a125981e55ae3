"""Comments and docstrings of the package have the component as subject: "The holder stops its queries"."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import airflow_stream_provider

ROOT = Path(airflow_stream_provider.__file__).parent

# A sentence that begins so has no component as subject; nor has one with "whoever" or "nobody" anywhere.
RIDDLE = re.compile(
    r"(Who|Whose|What|(After|As|At|By|For|From|In|Of|To|With) (which|whom|whose)"
    r"|Of (a|an|the|one|this|that|all|those|these|two|what)) "
    r"|.*\b([Ww]hoever|[Nn]obody)\b"
)

# Those that are left; rewrite one when you touch its file. Nothing is added here.
LEFT = {
    "Any other status is an error, whoever says so.",
    "As whom servers are asked.",
    "Nobody is asked.",
    "What is sent with one request, and what its answer must then have.",
    "What these say is believed:",
    "What was read before a mount came back is of long ago.",
    "after which nobody waits for a KDC any more.",
    "nobody else is to blame.",
    "What is written in place of a value of the wrong kind, or of nothing, by the name of the field.",
}


def texts(source: str) -> Iterator[str]:
    """The comments, those of lines in a row as one, and the paragraphs of the docstrings."""
    block: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        own_line = token.line.strip().startswith("#")
        if token.type == tokenize.COMMENT:
            if not own_line:
                yield from block
                block = []
            block = [" ".join([*block, token.string.strip("# ")])]
        elif token.type != tokenize.NL or not own_line:
            yield from block
            block = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from re.split(r"\n\s*\n|\n\s*(?=:\w+|- )", node.value.value)


def sentences(source: str) -> Iterator[str]:
    for text in texts(source):
        yield from re.split(r"(?<=[.;:?])\s+", " ".join(text.split()))


def riddles(source: str) -> list[str]:
    return [sentence for sentence in sentences(source) if RIDDLE.match(sentence)]


def test_the_component_is_the_subject() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {sentence}"
        for path in ROOT.rglob("*.py")
        for sentence in riddles(path.read_text())
        if sentence not in LEFT
    }
    assert found == set(), (
        'Name the component that does it: "The holder stops its queries", not "Who holds is asked to".'
    )


def test_a_sentence_without_one_is_found_wherever_it_is() -> None:
    assert riddles('"""Stop.\n\nWho holds is\nasked to."""\n# So\n# nobody waits.\nx = 1  # Of a person\'s name\n') == [
        "So nobody waits.",
        "Of a person's name",
        "Who holds is asked to.",
    ]
    assert riddles('"""The holder stops. Ask what holds, and of which release."""\nx = "Nobody asks."  # who\n') == []
