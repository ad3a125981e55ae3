"""What befalls the simulated machines: each fault by its name, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from airflow_stream_provider.checkpoint import Seen
from airflow_stream_provider.runtime.control_client import HOLDERS
from tests.support.simulation.airflow import SaysDead, Task
from tests.support.simulation.cluster import boot
from tests.support.simulation.data import ID, LISTING_SECONDS
from tests.support.simulation.driver import Driver
from tests.support.simulation.forgeries import FORGERIES
from tests.support.simulation.watching import Runs
from tests.support.simulation.wire import AT_WRITE, Fault
from tests.support.simulation.world import Actor

if TYPE_CHECKING:
    from tests.support.simulation.seeds import Simulation

Heal = Callable[[], None]
NEVER = float("inf")


def _holder(sim: Simulation) -> Driver | None:
    name = sim.oracle.state.holder
    driver = sim.world.drivers.get(name or "")
    return None if driver is None or driver.over else driver


def a_driver(sim: Simulation) -> Driver | None:
    """The holder, or whom the open request names, as often as all others."""
    request, drivers = sim.oracle.state.open_request, sim.world.drivers
    names = (sim.oracle.state.holder, request.to if request else None, request.source if request else None)
    named = [drivers[name] for name in names if name and not drivers[name].over]
    if named and sim.rng.random() < 0.7:
        return sim.pick(named)
    return sim.pick([driver for driver in sim.world.drivers.values() if not driver.over])


def anybody(sim: Simulation) -> Actor | None:
    if sim.rng.random() < 0.6:
        return a_driver(sim)
    return sim.pick([a for a in sim.world.actors if isinstance(a, (Task, Runs)) and not a.over])


def kill(sim: Simulation) -> Heal | None:
    actor = anybody(sim)
    if actor is None:
        return None
    actor.crash()
    return sim.nothing


def freeze(sim: Simulation) -> Heal | None:
    """SIGSTOP; some are killed before anybody lets them go on."""
    actor = anybody(sim)
    if actor is None or actor.frozen or getattr(actor, "lost", False):
        return None
    actor.frozen = True

    def heal() -> None:
        if sim.rng.random() < 0.3:
            actor.crash()
        actor.frozen = False

    return heal


def suspend(sim: Simulation) -> Heal | None:
    """The machine sleeps: its monotonic clock stands still, its wall clock goes on."""
    driver = a_driver(sim)
    if driver is None or driver.frozen or driver.lost:
        return None
    driver.frozen = driver.suspended = True

    def heal() -> None:
        driver.frozen = driver.suspended = False

    return heal


def cut(sim: Simulation) -> Heal | None:
    actor = anybody(sim)
    if actor is None or actor.cut:
        return None
    actor.cut = True

    def heal() -> None:
        actor.cut = False

    return heal


def machine_lost(sim: Simulation) -> Heal | None:
    """The cluster does not see a driver's machine any more, nor does that see anything else."""
    driver = a_driver(sim)
    if driver is None or driver.cut or driver.frozen:
        return None
    driver.cut = driver.lost = True

    def comes_back() -> None:
        driver.cut = driver.lost = False

    # Also while all others are well.
    sim.later(sim.rng.uniform(5.0, 120.0), comes_back)
    return sim.nothing


def machine_sleeps(sim: Simulation) -> Heal | None:
    """The cluster loses a driver's machine, which sleeps and wakes again: for less long than the driver would be waited
    for without a ledger.
    """
    driver = _holder(sim) if sim.seldom.random() < 0.8 else a_driver(sim)
    if driver is None or driver.cut or driver.frozen:
        return None
    driver.frozen = driver.suspended = driver.lost = True

    def wakes() -> None:
        driver.frozen = driver.suspended = driver.lost = False

    longest = 2 * driver.policy.lease_seconds + driver.policy.pause_seconds - 2.0
    sim.later(sim.seldom.uniform(longest / 3, longest), wakes)
    return sim.nothing


def clock_jump(sim: Simulation) -> Heal | None:
    """Somebody sets the wall clock of a machine, forward or back."""
    actor = anybody(sim)
    if actor is None:
        return None
    actor.skew = sim.rng.choice((-3600.0, -20.0, -5.0, 4.0, 20.0, 3600.0))

    def heal() -> None:
        if not actor.over:
            actor.skew = 0.0

    return heal


def hang(sim: Simulation) -> Heal | None:
    """A file system that gives no answer, to one machine."""
    actor = anybody(sim)
    if actor is None:
        return None
    actor.hangs_until = sim.world.now + sim.rng.uniform(1.0, 25.0)

    def heal() -> None:
        actor.hangs_until = 0.0

    return heal


def second_read_hangs(sim: Simulation) -> Heal | None:
    """What a look reads once more gives no answer any more: a person finds that in hours."""
    if sim.world.second_reads_hang:
        return None
    sim.world.second_reads_hang = True
    sim.later(sim.rng.uniform(300.0, 900.0), lambda: setattr(sim.world, "second_reads_hang", False))
    return sim.nothing


def stall(sim: Simulation) -> Heal | None:
    """One thread is held up: a collection of garbage, a busy machine."""
    actor = sim.pick(sim.world.awake())
    if actor is None:
        return None
    actor.due += sim.rng.uniform(1.0, 20.0)
    return sim.nothing


def slow_checkpoint(sim: Simulation) -> Heal | None:
    """A machine, or each but one, sees late what another has committed."""
    driver = a_driver(sim)
    if driver is None:
        return None
    others = [each for each in sim.world.drivers.values() if each is not driver and not each.over]
    slow = others if sim.rng.random() < 0.5 else [driver]
    late = sim.rng.choice((sim.rng.uniform(1.0, LISTING_SECONDS), NEVER))
    for each in slow:
        each.sees_late = late
        # Also while all others are well.
        sim.later(sim.rng.uniform(5.0, 40.0), partial(setattr, each, "sees_late", 0.0))
    return sim.nothing


def checkpoint_replaced(sim: Simulation) -> Heal | None:
    """The checkpoint is moved away: nothing, an older copy or another one is there until a person puts it back.

    The copy is older than what the last holders have told in records, when they were rehearsed or let go: nobody can
    see what nobody has told.
    """
    data, state = sim.world.data, sim.oracle.state
    said = [each.get("batch") for driver in state.held[:HOLDERS] for each in driver.queries]
    told = max((batch for batch in said if batch is not None), default=0)
    if data is None or data.copy is not None or not told:
        return None
    older, another = sim.seldom.randrange(told), sim.seldom.randrange(data.committed)
    data.copy = sim.seldom.choice((Seen(), Seen(ID, older), Seen("query-2", another)))
    for driver in sim.world.drivers.values():  # what runs there finds its files no more, and is tried again
        if driver.queries.started and not driver.mishap:
            driver.mishap = "curable"

    def heal() -> None:
        data.copy = None

    return heal


def _everywhere(name: str, value: object, well: object) -> Callable[[Simulation], Heal | None]:
    def befall(sim: Simulation) -> Heal | None:
        if getattr(sim.world, name) != well:
            return None
        setattr(sim.world, name, value)
        return lambda: setattr(sim.world, name, well)

    return befall


def _at_write(fault: Fault) -> Callable[[Simulation], Heal | None]:
    def befall(sim: Simulation) -> Heal | None:
        """What happens to somebody's next record."""
        actor = anybody(sim)
        if actor is None:
            return None
        sim.at_write[actor.process] = fault
        return lambda: (sim.at_write.pop(actor.process, None), None)[1]

    return befall


def torn_heartbeat(sim: Simulation) -> Heal | None:
    """Also the last one of a driver that is dead."""
    dead = [driver for driver in sim.world.drivers.values() if driver.over]
    driver = sim.pick(dead) if dead and sim.rng.random() < 0.3 else a_driver(sim)
    store = sim.world.store
    data = None if driver is None else store.heartbeat(driver.incarnation)
    if driver is None or data is None:
        return None
    store.put_heartbeat(driver.incarnation, data[: len(data) // 2])
    sim.world.torn_beats.add(driver.incarnation)
    return sim.nothing


def damaged_record(sim: Simulation) -> Heal | None:
    """The disk tears or loses a record, until a person restores it."""
    world, seen = sim.world, sim.oracle.seen
    if world.damaged or not seen:
        return None
    seq = max(1, seen - sim.rng.randrange(4))
    missing = seq < seen and sim.rng.random() < 0.4
    world.damage(seq, None if missing else b'{"kind": "acqui')
    return world.restore


def forged_record(sim: Simulation) -> Heal | None:
    """Somebody who does not know the rules puts a record into the log."""
    state, world = sim.oracle.state, sim.world
    if world.damaged or not state.incarnations:
        return None
    forged = FORGERIES[sim.rng.choice(list(FORGERIES))](state)
    if world.store.read(state.seq + 1) is None:
        world.store.create(state.seq + 1, forged.to_json())
    return sim.nothing


def sigterm(sim: Simulation) -> Heal | None:
    driver = a_driver(sim)
    if driver is None:
        return None
    driver.terminate()
    return sim.nothing


def _query(how: str) -> Callable[[Simulation], Heal | None]:
    def befall(sim: Simulation) -> Heal | None:
        driver = _holder(sim)
        if driver is None or not driver.queries.started or driver.mishap:
            return None
        driver.mishap = how
        return sim.nothing

    return befall


def script_fails(sim: Simulation) -> Heal | None:
    driver = a_driver(sim)
    if driver is None or driver.agent is None or driver.queries.over:
        return None  # a script ends once, one way or the other
    driver.script_fails()
    return sim.nothing


def relaunch(sim: Simulation) -> Heal | None:
    """A supervising cluster starts a driver again, beside its own orphan or not."""
    driver = sim.pick([d for d in sim.world.drivers.values() if not d.lost])
    if driver is None or sum(not d.over for d in sim.world.drivers.values()) > 4:
        return None
    boot(sim.world, driver.deployment, driver.submission)
    return sim.nothing


def person_gives_up(sim: Simulation) -> Heal | None:
    sim.people.give_up()
    return sim.nothing


def person_errs(sim: Simulation) -> Heal | None:
    """A person says that a driver is dead, and it lives."""
    driver, state = a_driver(sim), sim.oracle.state
    found = None if driver is None else state.incarnations.get(driver.incarnation)
    if driver is None or found is None or found.state.terminal or not driver.lives or driver.said_dead:
        return None
    SaysDead(sim.world, driver.incarnation)
    return sim.nothing


FAULTS: dict[str, Callable[[Simulation], Heal | None]] = {
    "kill": kill,
    "freeze": freeze,
    "suspend": suspend,
    "cut off": cut,
    "machine lost": machine_lost,
    "machine sleeps": machine_sleeps,
    "clock jump": clock_jump,
    "hang": hang,
    "second read hangs": second_read_hangs,
    "stall": stall,
    "slow checkpoint": slow_checkpoint,
    "store away": _everywhere("store_down", True, False),
    "store full": _everywhere("store_full", True, False),
    "store slow": _everywhere("store_slow", 0.7, 0.0),
    "checkpoint away": _everywhere("checkpoint_down", True, False),
    "checkpoint replaced": checkpoint_replaced,
    "cluster away": _everywhere("cluster_down", True, False),
    **{name: _at_write(fault) for fault, name in AT_WRITE.items()},
    "torn heartbeat": torn_heartbeat,
    "damaged record": damaged_record,
    "forged record": forged_record,
    "SIGTERM": sigterm,
    "query fails": _query("failed"),
    "query fails in a batch": _query("torn"),
    "query fails curably": _query("curable"),
    "query finishes": _query("finished"),
    "script fails": script_fails,
    "relaunch": relaunch,
    "person gives up": person_gives_up,
    "person errs": person_errs,
}
LEDGER = 3
SELDOM = {"checkpoint replaced": 1, "machine sleeps": LEDGER}
"""Those that come only in the seeds that divided by 5 leave this, by a chance of their own: the other seeds are what
they were without them. In those of LEDGER, what is written goes through sinks with a ledger."""
STRIKE_LATER = frozenset(AT_WRITE.values())
"""Those that wait for what somebody does next, and may wait in vain."""
