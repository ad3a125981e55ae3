"""One YAML file with the line of each of its fields, so that errors can name them.

Every parse of a DAG file reads all streams' files: one that PyYAML cannot stand would take away the DAGs of all
streams, their watches included.
"""

from __future__ import annotations

import stat
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


Field = tuple[str | int, ...]
# The field for users' own functions, which take YAML's numbers and truths. All other scalars are the text as written,
# and pydantic makes of it what the field is: YAML would make 750 of 12:30, 1.1 of 1.10 and false of NO.
_TYPED = "notify"
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
_KINDS |= {"int_parsing": "a whole number, such as 1000", "bool_parsing": "true or false"}
_TAG = "tag:yaml.org,2002:"

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

        :raises SpecError: it cannot be read, is not a mapping, has anchors, aliases or tags, or is too deep or long.
        """
        return cls.parse(path, read_text(path))

    @classmethod
    def parse(cls, path: Path, text: str) -> YamlFile:
        """Return what a text means; `path` and the line are named in errors."""
        file = cls(path, {}, {})
        try:
            file._check_plain(text)
            node = _Loader(text).get_single_node()
            fields = None if node is None else file._value(node, ())
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            file.lines[()] = mark.line + 1 if mark else 1
            # Without PyYAML's excerpt of the file, and not chained: the line may hold a password.
            if mark and _begins_with_tab(text, mark.line):
                sentence = "this line begins with a tab, and YAML takes only spaces there."
                raise file.error((), sentence, next_step="Put spaces in its place.") from None
            raise file.error((), f"this is not YAML: {error.problem}.", next_step="Correct it there.") from None
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

    def _check_plain(self, text: str) -> None:
        """Read the events one by one: PyYAML's composer, which recurses in C, must not see what is too deep."""
        depth = nodes = 0
        for event in yaml.parse(text, Loader=_Loader):
            if isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if not isinstance(event, yaml.NodeEvent):
                continue
            nodes += 1
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            self.lines[()] = event.start_mark.line + 1 if event.start_mark else 1
            if depth > MAX_DEPTH or nodes > MAX_NODES:
                what = "nested too deeply" if depth > MAX_DEPTH else "too long"
                raise self.error((), f"this is {what} for a stream.", next_step="Check what wrote this file.")
            if event.anchor is not None:
                raise self.error(
                    (), "anchors and aliases (& and *) are not read here.", next_step="Write the value out."
                )
            if getattr(event, "tag", None) is not None:
                next_step = "Write the value without its tag, or put it in quotes."
                raise self.error((), "tags (!) are not read here.", next_step=next_step)
        self.lines.clear()

    def _value(self, node: yaml.Node, field: Field) -> Any:
        """Return what a node says, and number its lines."""
        self.lines.setdefault(field, node.start_mark.line + 1)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*field, position)) for position, item in enumerate(node.value)]
        if not isinstance(node, yaml.MappingNode):
            return self._scalar(node, field)
        found = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self.error(field, "a field's name is not a word.", next_step="Correct it there.")
            name = (*field, str(key.value))
            twice = name in self.lines
            self.lines[name] = key.start_mark.line + 1
            if twice:
                raise self.error(name, "this field is given twice.", next_step="Keep one of the two.")
            found[name[-1]] = self._value(value, name)
        return found

    def _scalar(self, node: yaml.Node, field: Field) -> Any:
        if node.tag == f"{_TAG}null":
            return None
        if field[:1] != (_TYPED,) or node.tag.removeprefix(_TAG) not in ("bool", "int", "float"):
            return node.value
        try:
            return _Loader("").construct_object(node)
        except ValueError:  # thousands of digits
            sentence = "this looks like a number, and is none."
            raise self.error(field, sentence, next_step="Put it in quotes.") from None


def _begins_with_tab(text: str, number: int) -> bool:
    lines = text.splitlines()
    line = lines[number] if number < len(lines) else ""
    return "\t" in line[: len(line) - len(line.lstrip())]


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
