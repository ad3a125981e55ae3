"""Write Hadoop's settings as the files that Hadoop and Spark read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree


def write_properties(file: Path, properties: Mapping[str, str]) -> None:
    """Write settings to a file such as core-site.xml, and make its folder."""
    root = ElementTree.Element("configuration")
    for name, value in properties.items():
        one = ElementTree.SubElement(root, "property")
        ElementTree.SubElement(one, "name").text = name
        ElementTree.SubElement(one, "value").text = value
    file.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(root).write(file)
