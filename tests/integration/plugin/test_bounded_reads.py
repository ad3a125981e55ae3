"""The page beside a control folder whose mount is really dead."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.api_fastapi.core_api.security import get_user
from fastapi.testclient import TestClient

from airflow_stream_provider.plugin import app as page
from airflow_stream_provider.plugin.looks import Visible
from airflow_stream_provider.spec.shown import Shown
from airflow_stream_provider.spec.stream import StreamSpec
from devstack.dead_mount import hanging
from tests.support.control_root import new_log
from tests.support.namespaces import needs_fuse, run_program
from tests.support.snapshots import UPGRADED
from tests.support.story import NEW, write

# More than there are threads for one control root.
DEAD = 12
ALIVE = {"dag_id": "alive__operate"}


@needs_fuse
def test_a_dead_mount_is_a_sentence_and_holds_up_no_other_root_and_no_end_of_the_process(tmp_path: Path) -> None:
    program = "from tests.integration.plugin.test_bounded_reads import look_while_a_root_hangs as run\nrun()"
    said = run_program(program, tmp_path, 600)
    assert said.endswith("all others were shown\n")


def look_while_a_root_hangs() -> None:
    """Run in a mount namespace of its own; the process must end though threads hang for ever."""
    scratch = Path(os.environ["SCRATCH"])
    shown = [_stream(scratch / "alive", "alive"), *(_stream(scratch / "dead", f"dead-{n}") for n in range(DEAD))]
    app = page.make_app()
    app.dependency_overrides[get_user] = lambda: SimpleNamespace(name="anna")
    pytest.MonkeyPatch().setattr(page, "visible_streams", lambda user, form=None: shown)
    page.ANSWER_SECONDS = page.LOG_SECONDS
    with TestClient(app) as client:
        # On a busy machine one that is well may be late, too: the page is loaded again.
        until(lambda: client.get("/").text, lambda said: said.count(NEW) == len(shown))
        with hanging(scratch / "dead"):
            for _ in range(2):
                said = until(lambda: client.get("/").text, lambda said: said.count(NEW) == 1)
                assert said.count("did not answer the API server within") == DEAD
                said = client.get("/stream", params={"dag_id": "dead-3__operate"}).text
                assert "That is not known." in said
                assert "not known" in said
                until(lambda: client.get("/stream", params=ALIVE).text, lambda said: "Yes." in said)
        # Until what hung has returned.
        until(lambda: client.get("/").text, lambda said: said.count(NEW) == len(shown))
    print("all others were shown", flush=True)


def until(load: Callable[[], str], shows: Callable[[str], bool]) -> str:
    """Load a page until it shows something; whoever runs this process ends it when it takes too long."""
    while not shows(said := load()):
        print(said)
    return said


def _stream(root: Path, name: str) -> Visible:
    root.mkdir(exist_ok=True)
    write(new_log(root.as_uri(), name), *UPGRADED)
    fields = {"name": name, "application": "a.py", "version": "1", "cluster": "c", "control": root.as_uri()}
    return Visible(f"{name}__operate", Shown(name, StreamSpec.model_validate(fields)))
