"""Workers that are silent, answer something else or are elsewhere, over real HTTP."""

from __future__ import annotations

import time
from typing import Any

import pytest

from airflow_stream_provider.clusters import open_cluster, workers
from airflow_stream_provider.lifecycle.errors import ClusterError
from tests.support.fake_master import APP, Master
from tests.support.jobs import job


def test_a_worker_elsewhere_is_not_asked_and_confirms_nothing(master: Master) -> None:
    master.add_worker("rogue", "http://169.254.169.254:80")
    master.driver_was("KILLED", "rogue")
    left = master.remains()
    assert not left.gone
    assert "169.254.169.254" in left.alive[0]


def test_silent_workers_leave_a_fence_uncertain_and_do_not_block_it(
    master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "ALL_WORKERS_SECONDS", 1.0)
    master.hang = True
    for number in range(40):
        master.add_worker(f"w{number}")
    master.driver_was("KILLED", "w1")
    began = time.monotonic()
    left = master.remains()
    assert len(left.alive) == 40
    assert not left.gone
    assert time.monotonic() - began < 20.0  # all of them one after the other took for ever


@pytest.mark.parametrize("executors", [[{}], ["x"], [{"appid": "a", "appdesc": 7}], [{"appid": []}], None, 7])
def test_a_worker_that_answers_something_else_is_not_known_to_run_nothing(master: Master, executors: Any) -> None:
    master.add_worker("odd")
    master.driver_was("KILLED", "odd")
    master.executors = executors
    left = master.remains()
    assert not left.gone
    assert left.alive == ("Worker odd is not known to run nothing: it does not answer as Spark's workers do.",)


def test_a_worker_that_answers_something_else_hides_no_lack_of_room(master: Master) -> None:
    master.add_worker("odd")
    master.state["workers"][0].update(coresfree=0, memoryfree=0)
    master.state["activeapps"] = [APP]
    master.executors = [{}]
    with pytest.raises(ClusterError, match=r"no room .* In use: .*\(app-1\) 2 cores\."):
        open_cluster(master.connection()).check(job())


def test_executors_are_known_by_the_application_s_id_and_by_its_name(master: Master) -> None:
    """`SparkContext(appName=…)` has a name of its own."""
    master.add_worker("w")
    master.driver_was("KILLED", "w")
    master.executors = [{"id": "0", "appid": "app-7", "appdesc": {"name": "of the script"}}]
    assert master.remains().gone
    assert master.remains("app-7").alive == ("Executor 0 of app-7 is alive on worker w.",)
    master.executors = [{"id": "0", "appid": "app-8", "appdesc": {"name": APP["name"]}}]
    assert not master.remains().gone
    master.executors = []
    master.state["activeapps"] = [{**APP, "id": "app-7", "name": "of the script"}]
    assert master.remains("app-7").alive == ("Application app-7 is RUNNING.",)
