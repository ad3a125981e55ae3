"""What a place holds is compared with what was published, name by name and byte by byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_stream_provider.control.releases import RUNTIME_ZIP, file_hashes
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.releases.place import check_stored, manifest_of
from airflow_stream_provider.runtime import launcher
from airflow_stream_provider.runtime.launcher import MANIFEST, _check_hash
from tests.support.releases import Parts, release_of

Stored = dict[str, bytes]
Harm = Callable[[Stored], object]


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return release_of(tmp_path)


@pytest.fixture
def stored(parts: Parts) -> Stored:
    return {**parts[1], MANIFEST: manifest_of(*parts)}


HARMS: list[tuple[Harm, str]] = [
    (lambda stored: stored.update({"more.py": b""}), "more.py does not belong there"),
    (lambda stored: stored.update({"../x": b""}), "../x does not belong there"),
    (lambda stored: stored.update({"app.py": b"x = 2\n"}), "their hash is"),
    (lambda stored: stored.update({RUNTIME_ZIP: b""}), "their hash is"),
    (lambda stored: stored.pop("helper.py"), "helper.py is missing"),
    (lambda stored: stored.pop(MANIFEST), f"{MANIFEST} is missing"),
    (lambda stored: stored.update({MANIFEST: b"{"}), f"{MANIFEST} is another one"),
    (lambda stored: stored.update({MANIFEST: stored[MANIFEST] + b" "}), f"{MANIFEST} is another one"),
]


def test_what_was_published_is_accepted(parts: Parts, stored: Stored) -> None:
    assert check_stored(parts[0], "s3a://b/r", stored, stored.__getitem__) == file_hashes(parts[1])


@pytest.mark.parametrize(("harm", "says"), HARMS)
def test_what_differs_is_refused(parts: Parts, stored: Stored, harm: Harm, says: str) -> None:
    harm(stored)
    with pytest.raises(StreamError, match="in s3a://b/r have changed since they were published") as found:
        check_stored(parts[0], "s3a://b/r", stored, stored.__getitem__)
    assert says in str(found.value)


@pytest.mark.parametrize("gone", ["helper.py", MANIFEST])
def test_a_file_that_goes_while_they_are_read_is_missing(parts: Parts, stored: Stored, gone: str) -> None:
    def read(name: str) -> bytes:
        if name == gone:
            raise FileNotFoundError(2, "it has gone", f"hash/{name}")
        return stored[name]

    with pytest.raises(StreamError, match=f"have changed since they were published: {gone} is missing"):
        check_stored(parts[0], "s3a://b/r", stored, read)


def test_a_file_that_is_named_as_the_manifest_is_refused(parts: Parts) -> None:
    with pytest.raises(SpecError, match=f"is named '{MANIFEST}'"):
        manifest_of(parts[0], {**parts[1], MANIFEST: b""})


@pytest.mark.parametrize(
    "name", ["a,b.py", "a#b.py", "a:b.py", "a b.py", "a\n.py", "gr\xfc\xdfe.py", "\udcff.py", "a%20.py"]
)
def test_a_name_that_is_another_one_elsewhere_is_refused(parts: Parts, name: str) -> None:
    with pytest.raises(SpecError, match="which `storage` does not take"):
        manifest_of(parts[0], {**parts[1], name: b""})


def fetched(tmp_path: Path, stored: Stored) -> Path:
    copy = tmp_path / "copy"
    copy.mkdir()
    for name, data in stored.items():
        (copy / name).write_bytes(data)
    return copy


def test_the_launcher_accepts_what_was_published(tmp_path: Path, parts: Parts, stored: Stored) -> None:
    copy = fetched(tmp_path, stored)
    assert _check_hash(copy, "s3a://b/r", parts[0].hash) == parts[0].settings()
    assert {path.name for path in copy.iterdir()} == set(parts[1])


def forged(stored: Stored, **changes: object) -> None:
    """A manifest that fits the files, as anybody can write it; only the hash in Airflow's hands is another one."""
    manifest = json.loads(stored[MANIFEST])
    stored[MANIFEST] = json.dumps({**manifest, **changes}, sort_keys=True).encode()


@pytest.mark.parametrize(
    "harm",
    [
        *(harm for harm, says in HARMS if "../" not in says and says != f"{MANIFEST} is another one"),
        lambda stored: forged(stored, settings={"py_files": ["../../x"]}),
        lambda stored: forged(stored, settings=[]),
        lambda stored: forged(stored, files={}),
        lambda stored: stored.update({MANIFEST: b"[]"}),
        lambda stored: stored.update({MANIFEST: b"{"}),
        lambda stored: stored.update({MANIFEST: b"\xff"}),
    ],
)
def test_the_launcher_refuses_what_differs(tmp_path: Path, parts: Parts, stored: Stored, harm: Harm) -> None:
    harm(stored)
    with pytest.raises(RuntimeError, match="are not those that were published"):
        _check_hash(fetched(tmp_path, stored), "s3a://b/r", parts[0].hash)


class _Status:
    """As Hadoop's FileStatus."""

    def __init__(self, name: str, is_file: bool = True) -> None:
        self.name, self.is_file = name, is_file

    def getPath(self) -> _Status:
        return self

    def getName(self) -> str:
        return self.name

    def isFile(self) -> bool:
        return self.is_file


class _Jvm:
    """Stands in for the JVM of a driver whose storage has one entry; the real one is in the integration test."""

    def __init__(self, status: _Status) -> None:
        self.status, self.copied = status, False
        self.org = self

    def __getattr__(self, name: str) -> _Jvm:
        return self

    def __call__(self, *_: object) -> _Jvm:
        return self

    def listStatus(self, _: object) -> list[_Status]:
        return [self.status]

    def copyToLocalFile(self, *_: object) -> None:
        self.copied = True


@pytest.mark.parametrize(
    "status", [_Status("../x"), _Status("a/b"), _Status(".."), _Status("."), _Status(""), _Status("folder", False)]
)
def test_the_launcher_writes_nothing_outside_its_copy_with_a_stand_in_for_the_jvm(
    tmp_path: Path, status: _Status
) -> None:
    jvm = _Jvm(status)
    with pytest.raises(RuntimeError, match="is no file of a release"):
        launcher._fetch(jvm, "s3a://b/r", tmp_path)
    assert not jvm.copied
    plain = _Jvm(_Status("app.py"))
    launcher._fetch(plain, "s3a://b/r", tmp_path)
    assert plain.copied
