"""A stream as a page of the docs shows it: its YAML, and the connections that the page's commands make."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import yaml

from airflow_stream_provider.spec.stream import StreamSpec, load_spec

ROOT = Path(__file__).parents[2]


class PageStream:
    """One of them.

    :param page: name of the page, such as ``control.md``.
    :param heading: of the section with the stream.
    :param here: what stands on the page, and what it is on this machine.
    """

    def __init__(self, page: str, heading: str, here: Mapping[str, str]) -> None:
        text = (ROOT / "docs" / page).read_text()
        found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^##|\Z)", text, re.M | re.S)
        assert found, f"{page} has no section {heading!r}"
        self._text = found[1]
        for shown, real in here.items():
            assert shown in self._text, f"{page} does not show {shown!r} any more"
            self._text = self._text.replace(shown, real)

    def spec(self, folder: Path, conf: Mapping[str, str]) -> StreamSpec:
        """Return its YAML, with the application of the example, laid out as a folder of DAGs.

        :param conf: what this machine needs besides. What the page says goes before it.
        """
        for name in ("streams", "apps"):
            (folder / name).mkdir(parents=True)
        shutil.copy(ROOT / "dags" / "apps" / "orders.py", folder / "apps")
        path = folder / "streams" / "stream.yaml"
        fields = yaml.safe_load(self._block("yaml"))
        path.write_text(yaml.safe_dump({**fields, "conf": {**conf, **fields["conf"]}}))
        return load_spec(path)

    def connections(self) -> dict[str, dict[str, Any]]:
        """Return what ``airflow connections add`` makes here, by the id of the connection."""
        found = {}
        for words in self._commands("airflow connections add"):
            options = dict(zip(words[1::2], words[2::2], strict=True))
            fields: dict[str, Any] = {option.removeprefix("--conn-"): value for option, value in options.items()}
            fields["conn_type"] = fields.pop("type")
            if "extra" in fields:
                fields["extra"] = json.loads(fields["extra"])
            found[words[0]] = fields
        return found

    def control_root(self) -> str:
        """Return the URL that ``airflow streams init`` makes a control root."""
        [[url]] = self._commands("airflow streams init")
        return url

    def core_site(self) -> dict[str, str]:
        """Return Hadoop's settings that it shows; {}: none."""
        if "```xml" not in self._text:
            return {}
        properties = ElementTree.fromstring(self._block("xml")).iter("property")
        return {each.findtext("name", ""): each.findtext("value", "") for each in properties}

    def _commands(self, beginning: str) -> list[list[str]]:
        """Return the words behind the beginning of each command."""
        lines = re.findall(r"^```bash\n(.*?)^```", self._text, re.M | re.S)
        commands = "".join(lines).replace("\\\n", " ").splitlines()
        return [shlex.split(line.removeprefix(beginning)) for line in commands if line.startswith(beginning)]

    def _block(self, language: str) -> str:
        [text] = re.findall(rf"^```{language}\n(.*?)^```", self._text, re.M | re.S)
        return str(text)
