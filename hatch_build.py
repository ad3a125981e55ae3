"""What hatchling puts into the wheel besides the package: a list of what it needs (SBOM, PEP 770)."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.requirements import Requirement


def sbom(name: str, version: str, required: list[str], optional: dict[str, list[str]]) -> dict[str, Any]:
    """Return a CycloneDX 1.6 document of what is required, without versions: the installer decides on those."""

    def component(text: str, **scope: Any) -> dict[str, Any]:
        wanted = Requirement(text)
        properties = [{"name": "requirement", "value": text}, *scope.pop("properties", ())]
        purl = f"pkg:pypi/{wanted.name.lower()}"
        return {"type": "library", "name": wanted.name, "purl": purl, **scope, "properties": properties}

    extras = [
        component(text, scope="optional", properties=[{"name": "extra", "value": extra}])
        for extra, texts in sorted(optional.items())
        if extra not in ("demo", "dev")
        for text in texts
    ]
    itself = {"type": "library", "name": name, "version": version, "purl": f"pkg:pypi/{name}@{version}"}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**itself, "licenses": [{"license": {"id": "Apache-2.0"}}]}},
        "components": [component(text, scope="required") for text in required] + extras,
    }


class Sbom(BuildHookInterface[Any]):
    """Writes the document into a folder that lasts as long as the build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Have the wheel hold it below `.dist-info/sboms/`."""
        core = self.metadata.core
        found = sbom(core.name, self.metadata.version, core.dependencies, core.optional_dependencies)
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name, f"{core.name}.cdx.json")
        path.write_text(json.dumps(found, indent=1) + "\n")
        build_data["sbom_files"].append(str(path))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove it."""
        self.folder.cleanup()
