"""Which stream is meant: by its name, in the folder that is given or where DAGs are."""

from __future__ import annotations

import os
import pwd
import socket
from argparse import Namespace
from pathlib import Path

import pytest

from airflow_stream_provider.cli.commands import (
    declared_stream,
    given_by,
    given_folder,
    given_stream,
    read_connections,
)
from airflow_stream_provider.control import FilesRoot, make_root
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.spec.watched import note_of
from tests.support.spec_text import SPEC


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "orders.yaml").write_text(SPEC.format(name="orders"))
    (tmp_path / "broken.yaml").write_text(SPEC.format(name="broken") + "versoin: 1\n")
    return tmp_path


def asked(name: str, folder: Path | None) -> Namespace:
    return Namespace(name=name, folder=None if folder is None else str(folder))


def test_who_gives_a_command_is_who_has_called_sudo_and_not_what_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Behind `sudo -u airflow` all were "airflow": one went on with the command of another."""
    host = socket.gethostname()
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "airflow")
    monkeypatch.setenv("SUDO_USER", "anna")
    assert given_by() == f"anna@{host}"
    monkeypatch.delenv("SUDO_USER")
    monkeypatch.setattr(pwd, "getpwuid", {os.getuid(): pwd.struct_passwd(("ben", *[""] * 6))}.__getitem__)
    assert given_by() == f"ben@{host}"
    monkeypatch.setattr(os, "getuid", lambda: 123456)
    assert given_by() == f"uid-123456@{host}", "a container whose user has no name"


def test_streams_are_beside_the_dags_unless_a_folder_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path))
    assert given_folder(asked("orders", None)) == tmp_path / "streams"
    assert given_folder(asked("orders", tmp_path / "x")) == tmp_path / "x"


def test_a_stream_is_found_by_its_name(folder: Path) -> None:
    assert given_stream(asked("orders", folder)).version == "v1"
    for name in ("broken", "nobody"):
        with pytest.raises(SpecError, match=rf"There is no stream {name} in .*; there are: orders.*versoin"):
            given_stream(asked(name, folder))


def test_what_runs_can_be_found_though_its_file_is_broken(folder: Path, tmp_path: Path) -> None:
    control = (tmp_path / "control").as_uri()
    make_root(control)
    FilesRoot(control).note("broken", note_of(given_stream(asked("orders", folder)), "streams__watch"))
    found = declared_stream(Namespace(name="broken", folder=str(folder), control=control))
    assert (found.name, found.control, found.cluster) == ("broken", control, "c")
    assert declared_stream(Namespace(name="orders", folder=str(folder), control=None)).version == "v1"
    with pytest.raises(SpecError, match="Where a stream runs on without a YAML: --control URL"):
        declared_stream(Namespace(name="broken", folder=str(folder), control=None))
    with pytest.raises(SpecError, match="No stream nobody was declared in"):
        declared_stream(Namespace(name="nobody", folder=str(folder), control=control))


def test_connections_are_read_as_the_server_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("_AIRFLOW_PROCESS_CONTEXT", raising=False)
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "")
    read_connections()
    assert os.environ["_AIRFLOW_PROCESS_CONTEXT"] == "server"
