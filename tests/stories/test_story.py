"""The whole story under load, through Airflow's DAGs, with records counted, wherever drivers run, log and files are.

Every world has the hand-over with its roll-back, the killed holder and the count of records. A fault is tried in the
worlds whose parts answer it each in their own way; `told_by` says which parts these are.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind
from tests.stories.world import (
    ON_FILES,
    ON_KUBERNETES,
    ON_LOCAL,
    ON_MASTERS,
    ON_S3PROXY,
    ON_YARN,
    OPERATE,
    WORLDS,
    World,
    running,
    wait_for,
)

pytestmark = pytest.mark.system
FROZEN_SECONDS = AWAY_SECONDS = 12.0
UNHEARD_SECONDS = 20  # Airflow waits 15 s for an answer of Kubernetes
# Longer than a lease, and shorter than a pause.
BROKER_FROZEN_SECONDS = 18.0


def told_by(*worlds: str) -> pytest.MarkDecorator:
    """Run a test in these worlds only, since the others have the same parts where the fault is."""
    return pytest.mark.parametrize("world", worlds, indirect=True, scope="module")


@pytest.fixture(scope="module", params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The stream, deployed."""
    cluster, control, storage = request.param.split("+")
    with running(cluster, control, storage, tmp_path_factory.mktemp("story")) as opened:
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
    assert world.ends(back, OPERATE) == "success"
    assert world.holder() == before, "the driver that held before was kept warm"
    world.ends(upgrade)  # it says that it was superseded, or its soak was over
    world.settle()
    assert [set(each.values()) for each in world.boundaries()] == [{"completed"}, {"completed"}]


@told_by(ON_FILES, ON_MASTERS, ON_KUBERNETES)
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


@told_by(ON_FILES, ON_YARN, ON_KUBERNETES, ON_LOCAL)
def test_a_killed_standby_changes_nothing(world: World) -> None:
    before = world.holder()
    run = world.start("4", "--vat")
    world.kill(standby_of(world, before))
    # Airflow submits it again, or gives up; the stream goes on either way.
    world.ends(run)
    assert before not in world.ended_badly()
    world.settle()


@told_by(ON_FILES, ON_KUBERNETES)
def test_both_killed_are_revived_by_the_watch(world: World) -> None:
    holder = world.holder()
    run = world.start("5", "--vat")
    standby = standby_of(world, holder)
    world.kill(deployment_of(holder), standby)
    world.revived(holder)
    world.ends(run)
    world.settle()


@told_by(ON_LOCAL)
def test_a_broker_that_is_killed_in_mid_hand_over_delays_it_and_no_more(world: World) -> None:
    run = in_mid_hand_over(world, "6")
    world.stack.processes.named("kafka").signal(signal.SIGKILL)
    time.sleep(AWAY_SECONDS)
    world.stack.processes.restart("kafka")
    world.goes_on_after(run)


@told_by(ON_S3PROXY)
def test_a_broker_that_freezes_in_mid_hand_over_delays_it_and_no_more(world: World) -> None:
    before, run = world.holder(), in_mid_hand_over(world, "6-frozen")
    seq = world.log.state.seq
    broker = world.stack.processes.named("kafka")
    broker.signal(signal.SIGSTOP)
    time.sleep(BROKER_FROZEN_SECONDS)
    broker.signal(signal.SIGCONT)
    world.goes_on_after(run)
    # A holder that already waits for its boundary cannot pause, and halts with its lease. Nobody else may end for it.
    assert set(world.ended_badly(seq)) <= {before}


@told_by(ON_S3PROXY, ON_MASTERS)
def test_a_storage_that_hangs_delays_it_and_no_more(world: World) -> None:
    server = world.storage.server
    assert server is not None
    run = world.start("7", "--vat")
    standby_of(world, world.holder())
    server.send_signal(signal.SIGSTOP)
    time.sleep(FROZEN_SECONDS)
    server.send_signal(signal.SIGCONT)
    world.goes_on_after(run)


@told_by(ON_FILES, ON_YARN, ON_KUBERNETES)
def test_killed_executors_are_replaced(world: World) -> None:
    before, began = world.holder(), time.time()
    assert world.kill_executors() > 0
    world.settle()
    world.note_failure(began)
    assert world.holder() == before


@pytest.mark.parametrize("part", ["yarn-resourcemanager", "yarn-node-1", "yarn-node-2"])
@told_by(ON_YARN)
def test_a_part_of_yarn_that_is_away_in_mid_hand_over_delays_it_and_no_more(world: World, part: str) -> None:
    run = world.start(f"8-{part}", "--vat")
    standby_of(world, world.holder())
    frozen = world.stack.processes.named(part).pid  # not its group: containers run on
    os.kill(frozen, signal.SIGSTOP)
    time.sleep(AWAY_SECONDS)
    os.kill(frozen, signal.SIGCONT)
    world.goes_on_after(run)


@told_by(ON_YARN)
def test_a_resource_manager_that_forgets_its_drivers_is_survived(world: World) -> None:
    """It has no recovery, as YARN by default: after a restart the nodes are told to end what it does not know."""
    holder = world.holder()
    world.stack.processes.restart("yarn-resourcemanager")
    world.revived(holder)
    world.settle()


@pytest.mark.parametrize("part", ["server-hangs", "server-closes", "node"])
@told_by(ON_KUBERNETES)
def test_a_part_of_kubernetes_that_is_away_in_mid_hand_over_delays_it_and_no_more(world: World, part: str) -> None:
    """An API server that hangs or closes every connection, or the holder's node, which says nothing and runs on."""
    kubernetes, node = world.stack.kubernetes, world.stack.kubernetes.node_of(world.submission())
    run = world.start(f"8-{part}", "--vat")
    standby_of(world, world.holder())
    if part == "server-closes":
        kubernetes.ask("POST", f"/stand-in/away/{UNHEARD_SECONDS}")
    elif part == "server-hangs":
        server = world.stack.processes.named("kubernetes").pid  # the kubelets are in it; pods run on
        os.kill(server, signal.SIGSTOP)
        time.sleep(UNHEARD_SECONDS)
        os.kill(server, signal.SIGCONT)
    else:
        kubernetes.ask("POST", f"/stand-in/silent/{node}")
        time.sleep(UNHEARD_SECONDS)
        kubernetes.ask("POST", f"/stand-in/back/{node}")
    world.goes_on_after(run)


@pytest.mark.parametrize("then", ["removed", "lost"])
@told_by(ON_KUBERNETES)
def test_a_node_that_dies_with_the_holder_is_survived(world: World, then: str) -> None:
    """Nobody says that its pods have ended, also where the node is removed: the driver's lease and pause are over."""
    holder, kubernetes = world.holder(), world.stack.kubernetes
    node = kubernetes.node_of(world.submission())
    kubernetes.ask("POST", f"/stand-in/crash/{node}")
    if then == "removed":
        kubernetes.ask("DELETE", f"nodes/{node}")
    world.revived(holder)
    assert kubernetes.node_of(world.submission()) != node
    kubernetes.ask("POST", f"/stand-in/{'node' if then == 'removed' else 'back'}/{node}")
    world.settle()


@told_by(ON_MASTERS)
def test_the_master_that_leads_is_killed_in_mid_hand_over(world: World) -> None:
    leader = world.stack.spark.leader
    assert leader is not None
    run = in_mid_hand_over(world, "9")
    world.stack.processes.named(leader.name).signal(signal.SIGKILL)
    world.ends(run)
    wait_for("the other master to lead", lambda: world.stack.spark.leader not in (None, leader))
    world.settle()


def test_afterwards_nothing_is_lost(world: World) -> None:
    found = world.audit()
    assert (found.lost, found.duplicated) == (0, 0), found
    assert found.produced > 0
    assert world.holders() == 1
    assert world.log.refresh().illegal == ()


def in_mid_hand_over(world: World, version: str) -> str:
    """Start an upgrade and wait until its hand-over is asked for; return the run."""
    before = world.log.refresh().seq
    run = world.start(version, "--vat")
    # By its record: on a busy machine the request itself may be over between two looks.
    wait_for("the request", lambda: any(r.kind == Kind.REQUESTED for r in world.log.records(before + 1)))
    return run


def standby_of(world: World, holder: str) -> str:
    """Wait until a driver stands by beside the holder; return its deployment."""

    def found() -> str | None:
        state = world.log.refresh()
        others = (d for d, each in state.deployments.items() if d != deployment_of(holder) and not each.ended)
        return next((d for d in others if state.of_deployment(d)), None)

    return str(wait_for("a standby", found))
