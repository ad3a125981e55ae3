"""One YAML file with the line of each of its fields, so that errors can name them.

Every parse of a DAG file reads all streams' files: one that PyYAML cannot stand would take away the DAGs of all
streams, their watches included.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from airflow_stream_provider.lifecycle.errors import SpecError

# A stream's file has about a thousand characters and fifty values.
MAX_BYTES = 64 * 1024
MAX_DEPTH = 16
MAX_NODES = 2000


class NotPlain(Exception):
    """YAML that is refused; `line` counts from 1."""

    def __init__(self, line: int, sentence: str, next_step: str) -> None:
        super().__init__(sentence)
        self.line = line
        self.sentence = sentence
        self.next_step = next_step


def read_text(path: Path) -> str:
    """Return the text of a file.

    :raises SpecError: it cannot be read, is not a regular file, is larger than MAX_BYTES, or is not UTF-8.
    """
    why = "it is not a file"
    try:
        if stat.S_ISREG(path.stat().st_mode):  # anything else, such as a pipe, could make us wait for ever
            with open(path, "rb") as file:
                data = file.read(MAX_BYTES + 1)
            if len(data) <= MAX_BYTES:
                return data.decode("utf-8")
            why = f"it has more than {MAX_BYTES} bytes"
    except OSError as error:
        why = error.strerror or "not readable"
    except UnicodeDecodeError:
        why = "not UTF-8 text"
    raise SpecError(f"{path} cannot be read: {why}.", next_step="Check the file.", file=str(path))


def check_plain(text: str) -> None:
    """Raise NotPlain when YAML has anchors, aliases or tags, or is deeper than MAX_DEPTH or longer than MAX_NODES.

    Reads the events one by one: PyYAML's composer, which recurses in C, must not see what is too deep.

    :raises yaml.YAMLError: it is not YAML.
    """
    depth = nodes = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if not isinstance(event, yaml.NodeEvent):
            continue
        line = event.start_mark.line + 1 if event.start_mark else 1
        nodes += 1
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        if depth > MAX_DEPTH or nodes > MAX_NODES:
            what = "nested too deeply" if depth > MAX_DEPTH else "too long"
            raise NotPlain(line, f"this is {what} for a stream.", "Check what wrote this file.")
        if event.anchor is not None:
            raise NotPlain(line, "anchors and aliases (& and *) are not read here.", "Write the value out.")
        if getattr(event, "tag", None) is not None:
            raise NotPlain(line, "tags (!) are not read here.", "Write the value without its tag, or put it in quotes.")


Field = tuple[str | int, ...]
# Fields that other programs read. What is written there is a text: YAML would make 750 of 12:30, and false of NO.
AS_WRITTEN = frozenset({"arguments", "conf", "environment"})
# What is written in place of a value of the wrong kind, or of nothing, by the name of the field.
_EXAMPLES = {
    "name": "orders",
    "application": "apps/orders.py",
    "version": '"1.0"',
    "cluster": "spark_default",
    "control": "file:///data/streams",
    "arguments": '[--kafka, "host:9092"]',
    "py_files": "[apps/helper.py]",
    "conf": '{spark.cores.max: "2"}',
    "environment": "{REGION: eu}",
    "upgrade": "{soak: 10m}",
    "lag": "{max_seconds: 5m}",
    "watch": "{schedule: 60s}",
    "notify": "[{call: my_package.page, arguments: {who: anna}}]",
}
_ABOUT = {
    "cluster": ", the id of an Airflow connection of type spark",
    "control": ", a folder that Airflow and all drivers mount, made once by `airflow streams init`",
}
_KINDS = {"tuple_type": "a list", "dict_type": "a mapping", "model_type": "a mapping", "string_type": "a text"}
_TEXT, _NOTHING, _MERGE = (f"tag:yaml.org,2002:{name}" for name in ("str", "null", "merge"))

# PyYAML's own in C where it was built with it: ten times as fast.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class YamlFile:
    """The fields of a YAML mapping, and the line (from 1) that each is written in."""

    path: Path
    fields: dict[str, Any]
    lines: dict[Field, int]

    @classmethod
    def read(cls, path: Path) -> YamlFile:
        """Read a file.

        :raises SpecError: it cannot be read, is not plain YAML within the limits (`check_plain`), or is not a mapping.
        """
        return cls.parse(path, read_text(path))

    @classmethod
    def parse(cls, path: Path, text: str) -> YamlFile:
        """Return what a text means; `path` and the line are named in errors."""
        file = cls(path, {}, {})
        try:
            check_plain(text)
            # Composed once and constructed from that: a folder of streams is read at every parse of its DAG file.
            loader = _Loader(text)
            node = loader.get_single_node()
            fields = None
            if node is not None:
                file._number(node, ())
                _keep_as_written(node)
                fields = file._construct(loader, node)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            file.lines[()] = mark.line + 1 if mark else 1
            # Without PyYAML's excerpt of the file, and not chained: the line may hold a password.
            if mark and _begins_with_tab(text, mark.line):
                sentence = "this line begins with a tab, and YAML takes only spaces there."
                raise file.error((), sentence, next_step="Put spaces in its place.") from None
            raise file.error((), f"this is not YAML: {error.problem}.", next_step="Correct it there.") from None
        except NotPlain as error:
            file.lines[()] = error.line
            raise file.error((), error.sentence, next_step=error.next_step) from None
        except yaml.YAMLError:
            raise file.error((), "this is not YAML.", next_step="Remove the characters that are not text.") from None
        if not isinstance(fields, dict):
            raise file.error((), "a stream is a mapping of fields.", next_step="Start with `name: my-stream`.")
        return cls(path, fields, file.lines)

    def error(self, field: Field, sentence: str, *, next_step: str = "") -> SpecError:
        """Return the error that names this file, the field and its line (of a missing field: where it belongs)."""
        known = field
        while known and known not in self.lines:
            known = known[:-1]
        line = self.lines.get(known, 1)
        name = ".".join(str(part) for part in field)
        return SpecError(
            f"{self.path}, line {line}{', ' + name if name else ''}: {sentence}",
            next_step=next_step,
            file=str(self.path),
            line=line,
            field=name,
        )

    def refuse(self, error: ValidationError, model: type[BaseModel]) -> list[SpecError]:
        """Return pydantic's errors, each as one sentence of ours without what was written; the first says most."""
        found = error.errors(include_url=False, include_context=False, include_input=False)
        # A mistyped field is both unknown and missing: the first says more.
        found.sort(key=lambda each: each["type"] != "extra_forbidden")
        return [self._refusal(each, model) for each in found]

    def _refusal(self, found: ErrorDetails, model: type[BaseModel]) -> SpecError:
        field: Field = tuple(found["loc"])
        name = str(field[-1]) if field else ""
        example = _EXAMPLES.get(name, "") if len(field) == 1 else ""
        if found["type"] == "missing":
            next_step = f"Add `{name}: {example or '...'}`{_ABOUT.get(name, '') if example else ''}."
            return self.error(field, "this field is missing.", next_step=next_step)
        if found["type"] in _KINDS:
            kind = _KINDS[found["type"]]
            such = f", such as `{name}: {example}`" if example else ""
            return self.error(field, f"is not {kind}.", next_step=f"Write {kind}{such}.")
        if found["type"] == "extra_forbidden":
            known = _fields_at(model, field[:-1])
            import difflib

            close = difflib.get_close_matches(str(field[-1]), known, n=1)
            next_step = f"Did you mean `{close[0]}`?" if close else f"Known here: {', '.join(known)}."
            return self.error(field, "there is no such field.", next_step=next_step)
        sentence = found["msg"].removeprefix("Value error, ").rstrip(".")
        return self.error(
            field, f"{sentence}.", next_step="" if found["type"] == "value_error" else "Correct it there."
        )

    def _construct(self, loader: Any, node: yaml.Node) -> Any:
        try:
            return loader.construct_document(node)
        except (ValueError, OverflowError):
            # A date such as 2026-30-11, or a number of thousands of digits.
            again = _Loader("")  # the first one is in the middle of this
            for field, scalar in _scalars(node, ()):
                try:
                    again.construct_object(scalar)
                except (ValueError, OverflowError):
                    sentence = "this looks like a number or a date, and is none."
                    raise self.error(field, sentence, next_step="Put it in quotes.") from None
            raise self.error((), "a value cannot be read.", next_step="Put values in quotes.") from None

    def _number(self, node: yaml.Node, field: Field) -> None:
        self.lines.setdefault(field, node.start_mark.line + 1)
        if isinstance(node, yaml.SequenceNode):
            for position, item in enumerate(node.value):
                self._number(item, (*field, position))
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    raise self.error(field, "a field's name is not a word.", next_step="Correct it there.")
                name = (*field, str(key.value))
                if name in self.lines:
                    self.lines[name] = key.start_mark.line + 1
                    raise self.error(name, "this field is given twice.", next_step="Keep one of the two.")
                self.lines[name] = key.start_mark.line + 1
                self._number(value, name)


def _begins_with_tab(text: str, number: int) -> bool:
    lines = text.splitlines()
    line = lines[number] if number < len(lines) else ""
    return "\t" in line[: len(line) - len(line.lstrip())]


def _keep_as_written(stream: yaml.Node) -> None:
    """Make texts of all that the fields of AS_WRITTEN hold, but not of null, which is to be refused."""
    fields = stream.value if isinstance(stream, yaml.MappingNode) else []
    for each in (value for key, value in fields if key.value in AS_WRITTEN):
        for _, scalar in _scalars(each, ()):
            if scalar.tag not in (_NOTHING, _MERGE):
                scalar.tag = _TEXT


def _scalars(node: yaml.Node, field: Field) -> Iterator[tuple[Field, yaml.ScalarNode]]:
    if isinstance(node, yaml.ScalarNode):
        yield field, node
    elif isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            yield from _scalars(item, (*field, position))
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield field, key
            yield from _scalars(value, (*field, str(key.value)))


def _fields_at(model: type[BaseModel], field: Field) -> list[str]:
    for part in field:
        if isinstance(part, int):
            continue  # an item of a list has the fields of its kind
        inner = model.model_fields[part].annotation
        inner = next(iter(get_args(inner)), inner)
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        model = inner
    return list(model.model_fields)
