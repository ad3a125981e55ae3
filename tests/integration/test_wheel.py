"""The wheel, built as for a release: what is in it, and that it can be imported from there alone."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from airflow_stream_provider import __version__

ROOT = Path(__file__).parents[2]
PACKAGE = "airflow_stream_provider"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    out = tmp_path_factory.mktemp("wheel")
    uv = Path(sys.prefix) / "bin" / "uv"
    # With what is installed here: no registry has to be reached, as it would be for a build of its own.
    own = ["--offline", "--no-build-isolation", "--python", sys.executable]
    done = subprocess.run(
        [str(uv), "build", "--quiet", *own, "--wheel", "--out-dir", str(out), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (built,) = out.glob("*.whl")
    return zipfile.ZipFile(built)


def test_it_has_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    info = f"{PACKAGE}-{__version__}.dist-info"
    package = {path.relative_to(ROOT).as_posix() for path in (ROOT / PACKAGE).rglob("*.py")}
    assert set(wheel.namelist()) == package | {f"{PACKAGE}/py.typed"} | {
        f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
    }


def test_its_metadata(wheel: zipfile.ZipFile) -> None:
    metadata = message_from_bytes(wheel.read(f"{PACKAGE}-{__version__}.dist-info/METADATA"))
    assert (metadata["Version"], metadata["License-Expression"]) == (__version__, "Apache-2.0")
    assert metadata["Keywords"]
    assert "Typing :: Typed" in (metadata.get_all("Classifier") or [])
    assert [url.partition(", ")[0] for url in metadata.get_all("Project-URL") or []] == ["Documentation"]


def test_airflow_finds_the_provider_in_it(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from importlib.metadata import distributions\n"
        f"(found,) = distributions(name='airflow-stream-provider', path=[{str(tmp_path)!r}])\n"
        "(entry,) = found.entry_points.select(group='apache_airflow_provider')\n"
        "print(entry.load()()['versions'], sys.modules[entry.module].__file__)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"['{__version__}'] {tmp_path / PACKAGE / 'get_provider_info.py'}"
