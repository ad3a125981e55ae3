"""The launcher refuses what has ended and what was not published, and runs nothing but its own copy of the release."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from airflow_stream_provider.control import ControlLog, FilesStore
from airflow_stream_provider.control.releases import LAUNCHER, RUNTIME_ZIP
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, StreamError
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.runtime import launcher, places
from airflow_stream_provider.runtime.launcher import main, private_copy
from devstack.control_folder import folder_of, publish
from tests.support.control_root import new_log
from tests.support.story import OLD, OLD_DEPLOYMENT, PREPARED, failed, record, write

SAYS_SO = "import pathlib\npathlib.Path({!r}).write_text('it ran')\n"


@pytest.fixture
def log(tmp_path: Path) -> ControlLog:
    return new_log((tmp_path / "control").as_uri())


@pytest.fixture
def release(log: ControlLog, tmp_path: Path) -> Release:
    """A release whose script says that it ran, and its declared deployment."""
    script = tmp_path / "app.py"
    script.write_text(SAYS_SO.format(str(tmp_path / "ran")))
    made = publish(folder_of(log), version="1", application=script)
    write(log, record("declared", deployment=OLD_DEPLOYMENT, release=made.to_json(), policy={}, reason=""))
    return made


def arguments(tmp_path: Path, deployment: str, script: str = "app.py") -> list[str]:
    control = (tmp_path / "control").as_uri()
    return ["--control", control, "--stream", "orders", "--deployment", deployment, "--", script]


def submit(tmp_path: Path, release: Release, script: str = "app.py") -> subprocess.CompletedProcess[str]:
    """Run the launcher as Spark's PythonRunner does."""
    folder = release.folder(tmp_path / "control" / "orders")
    private = tmp_path / "tmp"
    private.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, str(folder / LAUNCHER), *arguments(tmp_path, OLD_DEPLOYMENT, script)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(folder / RUNTIME_ZIP), "TMPDIR": str(private)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_a_deployment_that_has_failed_is_not_started(
    log: ControlLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(log, *PREPARED, failed(OLD))
    assert main(arguments(tmp_path, OLD_DEPLOYMENT), tmp_path) == 0
    assert capsys.readouterr().out == f"Deployment {OLD_DEPLOYMENT} is failed: nothing to do.\n"


def test_a_deployment_that_is_not_declared_is_not_started(
    log: ControlLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(tmp_path, "orders-9-00000000"), tmp_path) == 0
    assert capsys.readouterr().out == "Deployment orders-9-00000000 is not declared: nothing to do.\n"


@pytest.mark.parametrize("call", ["read", "heartbeats", "origin"])
def test_a_control_log_that_is_away_for_a_moment_is_waited_for(
    call: str, release: Release, log: ControlLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, away, ran = getattr(FilesStore, call), [True, True], []

    def fails_at_first(store: FilesStore, *arguments: int) -> object:
        if away:
            away.pop()
            raise ControlUnavailable("The control log is away.")
        return there(store, *arguments)

    monkeypatch.setattr(FilesStore, call, fails_at_first)
    monkeypatch.setattr(places, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(launcher, "_run", lambda log, origin, *others: ran.append(origin) or 0)
    assert main(arguments(tmp_path, OLD_DEPLOYMENT), release.folder(folder_of(log))) == 0
    assert ran == [log.records()[0].nonce]
    assert away == []


def test_a_driver_whose_jvm_ends_does_not_go_on_waiting_for_its_control_log(log: ControlLog, tmp_path: Path) -> None:
    """SIGTERM reaches the JVM alone, for which a process stands here: the Python that it has started would be left."""
    waits = f"""
import sys
from pathlib import Path
from airflow_stream_provider.control import FilesStore
from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from airflow_stream_provider.runtime.launcher import main

def away(*arguments):
    print("away", flush=True)
    raise ControlUnavailable("The control log is away.")

FilesStore.read = away
main({arguments(tmp_path, OLD_DEPLOYMENT)!r}, Path("."))
"""
    starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {waits!r}])"
    environment = {**os.environ, "PYSPARK_GATEWAY_PORT": "1"}
    jvm = subprocess.Popen(
        [sys.executable, "-c", starts], env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert jvm.stdout is not None
        assert jvm.stdout.readline() == "away\n"
        jvm.terminate()
        jvm.communicate(timeout=30)  # until the last one that may write there has ended
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(jvm.pid, signal.SIGKILL)


@pytest.mark.parametrize("module", ["argparse", "logging", "runpy", "airflow_stream_provider"])
def test_a_file_beside_the_launcher_stands_in_for_nothing(release: Release, tmp_path: Path, module: str) -> None:
    folder = release.folder(tmp_path / "control" / "orders")
    folder.chmod(0o770)
    (folder / f"{module}.py").write_text(SAYS_SO.format(str(tmp_path / "ran")))
    done = submit(tmp_path, release)
    assert f"{module}.py does not belong there" in done.stderr
    assert done.returncode != 0
    assert not (tmp_path / "ran").exists()


def test_a_script_that_was_changed_is_not_run(release: Release, tmp_path: Path) -> None:
    script = release.folder(tmp_path / "control" / "orders") / "app.py"
    script.chmod(0o660)
    script.write_text(script.read_text() + "# changed\n")
    done = submit(tmp_path, release)
    assert "have changed since they were published: their hash is" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_another_script_than_the_releases_is_not_run(release: Release, tmp_path: Path) -> None:
    done = submit(tmp_path, release, script=str(tmp_path / "app.py"))
    assert f"{OLD_DEPLOYMENT} runs app.py, and not {tmp_path}/app.py" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_modules_are_imported_from_the_copy_and_not_from_what_it_was_made_of(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = release.folder(tmp_path / "control" / "orders")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "path", [str(folder / RUNTIME_ZIP), "/elsewhere/helper.zip"])
    copy = private_copy(folder)
    assert sys.path == [str(copy / RUNTIME_ZIP), "/elsewhere/helper.zip"]
    assert {path.name for path in copy.iterdir()} == {path.name for path in folder.iterdir()}
    assert copy.parent.stat().st_mode & 0o777 == 0o700


def test_a_link_in_the_releases_folder_stays_a_link_and_is_refused(release: Release, tmp_path: Path) -> None:
    script = release.folder(tmp_path / "control" / "orders") / "app.py"
    script.parent.chmod(0o770)
    script.unlink()
    script.symlink_to(tmp_path / "app.py")
    assert "app.py is no regular file" in submit(tmp_path, release).stderr


def test_copies_of_drivers_that_have_ended_are_removed(release: Release, tmp_path: Path) -> None:
    """Also of killed ones; that of a living driver stays."""
    for _ in range(3):
        submit(tmp_path, release, script="other.py")
        assert len(list((tmp_path / "tmp").iterdir())) == 1
    folder = release.folder(tmp_path / "control" / "orders")
    command = f"""
import sys, tempfile
sys.path.insert(0, {str(folder / RUNTIME_ZIP)!r})
from airflow_stream_provider.runtime.launcher import private_copy
tempfile.tempdir = {str(tmp_path / "tmp")!r}
from pathlib import Path
print(private_copy(Path({str(folder)!r})), flush=True)
sys.stdin.read()
"""
    living = subprocess.Popen([sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert living.stdout is not None
        copy = Path(living.stdout.readline().strip())
        submit(tmp_path, release, script="other.py")
        assert (copy / "app.py").exists()
    finally:
        living.kill()
        living.communicate()
    submit(tmp_path, release, script="other.py")
    assert not copy.parent.exists()


def test_the_copy_is_kept_from_systemd_tmpfiles(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After ten days modules that are imported late were gone, and so were the script's own files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    copy = private_copy(release.folder(tmp_path / "control" / "orders"))
    folder = os.open(copy.parent, os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)  # as it does
    os.close(folder)


def test_the_copy_is_verified_and_not_the_folder(release: Release, log: ControlLog, tmp_path: Path) -> None:
    """What is changed between the copy and the check is not seen, and does not run either."""
    copy = tmp_path / "copy"
    copy.mkdir()
    with pytest.raises(StreamError, match=r"app\.py is missing"):
        main(arguments(tmp_path, OLD_DEPLOYMENT), copy)
