"""The whole story under load, through Airflow's DAGs, with records counted, wherever log and files are."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from airflow_stream_provider.lifecycle.ids import deployment_of
from devstack.drivers import wait_for
from tests.stores.world import BACK, World, running

PAIRS = ("file+file", "kafka+file", "kafka+hdfs", "kafka+moto", "kafka+s3proxy")
pytestmark = pytest.mark.system  # `make test-stores` runs it
FROZEN_SECONDS = AWAY_SECONDS = 12.0


@pytest.fixture(scope="module", params=PAIRS)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The stream, deployed."""
    control, storage = request.param.split("+")
    with running(control, storage, tmp_path_factory.mktemp("story")) as opened:
        assert opened.upgrade("1") == "success"
        opened.settle()
        yield opened
        for record in opened.log.records():  # shown when a test fails
            print(record.seq, record.kind, record.by, {k: v for k, v in record.fields.items() if k != "release"})


def test_it_is_handed_over_and_rolled_back(world: World) -> None:
    before = world.holder()
    upgrade = world.start("2", "--vat")
    wait_for("the hand-over", lambda: world.version() == "2")
    world.settle()
    back = world.roll_back()
    assert world.ends(back, BACK) == "success"
    assert world.holder() == before, "the driver that held before was kept warm"
    world.ends(upgrade)  # it says that it was superseded, or its soak was over
    world.settle()
    assert [set(each.values()) for each in world.boundaries()] == [{"completed"}, {"completed"}]


def test_a_release_that_cannot_go_on_is_refused(world: World) -> None:
    before, seq = world.holder(), world.log.refresh().seq
    assert world.upgrade("3", "--totals-by", "customer", "country") == "failed"
    assert world.holder() == before
    # It was the driver of that release that refused, and no task that failed before there was one.
    [(refused, by)] = world.ended_badly(seq).items()
    assert by == f"driver:{refused}"
    world.settle()


def test_a_killed_holder_is_revived_by_the_watch(world: World) -> None:
    holder = world.holder()
    world.kill(deployment_of(holder))
    world.revived(holder)
    world.settle()
    assert world.version() == "1"


def test_a_killed_standby_changes_nothing(world: World) -> None:
    before = world.holder()
    run = world.start("4", "--vat")
    world.kill(standby_of(world, before))
    # Airflow submits it again, or gives up; the stream goes on either way.
    world.ends(run)
    assert before not in world.ended_badly()
    world.settle()


def test_both_killed_are_revived_by_the_watch(world: World) -> None:
    holder = world.holder()
    run = world.start("5", "--vat")
    standby = standby_of(world, holder)
    world.kill(deployment_of(holder), standby)
    world.revived(holder)
    world.ends(run)
    world.settle()


def test_a_broker_that_is_killed_in_mid_hand_over_delays_it_and_no_more(world: World) -> None:
    if not world.spec.control.startswith("kafka:"):
        pytest.skip("the control log is not in Kafka")
    run = world.start("6", "--vat")
    standby_of(world, world.holder())
    wait_for("the request", lambda: world.log.refresh().open_request)
    world.stack.processes.named("kafka").signal(signal.SIGKILL)
    time.sleep(AWAY_SECONDS)
    world.stack.processes.restart("kafka")
    world.ends(run)
    wait_for("a holder", world.holder)
    world.settle()


def test_a_storage_that_hangs_delays_it_and_no_more(world: World) -> None:
    server = world.storage.server
    if server is None:
        pytest.skip("the disk of this machine cannot be frozen: see `make chaos`")
    run = world.start("7", "--vat")
    standby_of(world, world.holder())
    server.send_signal(signal.SIGSTOP)
    time.sleep(FROZEN_SECONDS)
    server.send_signal(signal.SIGCONT)
    world.ends(run)
    wait_for("a holder", world.holder)
    world.settle()


def test_afterwards_nothing_is_lost(world: World) -> None:
    found = world.audit()
    assert (found.lost, found.duplicated) == (0, 0), found
    assert found.produced > 0
    assert world.holders() == 1
    assert world.log.refresh().illegal == ()


def standby_of(world: World, holder: str) -> str:
    """Wait until a driver stands by beside the holder; return its deployment."""

    def found() -> str | None:
        state = world.log.refresh()
        others = (d for d, each in state.deployments.items() if d != deployment_of(holder) and not each.ended)
        return next((d for d in others if state.of_deployment(d)), None)

    return str(wait_for("a standby", found))
