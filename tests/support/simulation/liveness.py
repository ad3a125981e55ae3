"""What has to be so once all is well: somebody runs the stream or nobody wants it to run, and what is released ends."""

from __future__ import annotations

from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.state import RequestStage, StreamPhase
from airflow_stream_provider.planning.bring_up import pause
from airflow_stream_provider.planning.reconcile import reconcile
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Done, GiveUp, Later, TaskIdentity
from tests.support.simulation.bounds import CLOCKS_SECONDS, TAKE_BACK_BOUND
from tests.support.simulation.invariants import expect
from tests.support.simulation.oracle import Oracle
from tests.support.simulation.oracle_of_wishes import family_of
from tests.support.simulation.people import People
from tests.support.simulation.queries import BAD
from tests.support.simulation.watching import as_it_is
from tests.support.simulation.world import World
from tests.support.story import hash_of


class Liveness:
    """Looks at world and log as nobody in them can; `trouble_ends` begins to count anew."""

    def __init__(self, world: World, oracle: Oracle, people: People) -> None:
        self.world = world
        self.oracle = oracle
        self.people = people
        self._released_since = world.now

    def trouble_ends(self) -> None:
        """The faults are over: the bound on what is released begins now."""
        self._released_since = self.world.now

    def runs(self, committed: int) -> bool:
        """Whether a living driver holds, and has committed since."""
        holder = self.oracle.state.holder
        driver = self.world.drivers.get(holder or "")
        if driver is None or not driver.lives or not driver.writing or driver.queries.paused:
            return False
        data = self.world.data
        assert data is not None
        return data.committed > committed + 1 and driver.queries.batch is not None

    def rests(self) -> bool:
        """Whether nobody runs the stream, and nobody is to: people have stopped it, and nothing is under way."""
        state = self.oracle.state
        # By whoever has asked, and not by what the product makes of that: a phase that nobody wants is no rest.
        stopped = state.phase in (StreamPhase.STOPPED, StreamPhase.FINISHED, StreamPhase.EMPTY)
        resting = (stopped and not self.oracle.wanted) or self._is_tried_in_vain() or self._waits_for_approval()
        begins = state.phase is StreamPhase.EMPTY and self.people.runs
        return resting and not begins and not self.world.damaged

    def settled(self) -> bool:
        """Whether what is wished for is so, or whoever looks is told why it cannot be, or not now."""
        if self.world.damaged or self._left():
            return False
        snapshot = Snapshot("orders", self.world.now, self.oracle.state, tuple(self.oracle.records))
        scene = as_it_is(self.world, snapshot, TaskIdentity("orders__watch", "oracle", "look"))
        # For all, and for whoever waits for one of the two.
        steps = [reconcile(scene, wish) for wish in (None, scene.state.wish, scene.state.candidate)]
        return all(isinstance(step, (Done, GiveUp, Later)) for step in steps)

    def _left(self) -> list[str]:
        """The deployments that live though no wish that counts is for them; of those that have held, only at rest."""
        state, oracle = self.oracle.state, self.oracle
        if state.holder is None and oracle.wanted:
            return []
        wanted = {family_of(each) for each in (oracle.wish, oracle.candidate) if each is not None}
        spare = (d for d in state.deployments.values() if not d.ended and d.family not in wanted)
        return [d.id for d in spare if state.holder is None or not state.has_held(d.id)]

    def waits_by_rule(self, since: float) -> bool:
        """Whether the watch paused before a try since then, or has to take over what nobody has submitted."""
        state = self.oracle.state
        unsubmitted = any(not d.submission and not d.ended for d in state.deployments.values())
        wished = [each for each in (state.wish, state.candidate) if each is not None]
        worked_on = any(each.seq > max(state.held_from, state.held_to) for each in wished)
        # What the holder has proven since must not hide the pauses that came before it.
        old = [i for i in state.incarnations if state.deployments[deployment_of(i)].declared_at < since]
        beats = {name: self.oracle.beat(name) for name in old}
        snapshot = Snapshot("orders", since - CLOCKS_SECONDS, state, heartbeats=beats)
        families = {each.family for each in wished} | {state.deployments[each.deployment].family for each in state.held}
        return unsubmitted or worked_on or any(pause(snapshot, name)[1] > 0.0 for name in families)

    def expect_taken_back(self) -> None:
        """Nobody but the drivers is needed to end what was released, once log and releaser are well."""
        world, state = self.world, self.oracle.state
        request, now = state.open_request, world.now
        released = request is not None and request.stage is RequestStage.RELEASED and not state.must_fence
        source = world.drivers.get(request.source or "") if released and request is not None else None
        log_well = not (
            world.store_down or world.store_full or world.store_slow or world.damaged or world.takes_nothing
        )
        held_up = source is None or not source.lives or source.due > now + 2.0 or source.hangs_until > now
        # Its wait begins when it knows that `released` is in the log.
        held_up = held_up or source is None or source.agent is None or source.agent._acts.background.is_busy
        if held_up or not log_well or source is None or source.terminating or source.mishap:
            self._released_since = now
        expect(now - self._released_since <= TAKE_BACK_BOUND, "take-back", request)

    def _waits_for_approval(self) -> bool:
        """Whether nobody has approved what is to run, and nothing has run before it."""
        state = self.oracle.state
        if state.wish is None or state.holder is not None or self.oracle.to_hold[1:] != ("",):
            return False
        return state.wish.family in self.oracle.unapproved

    def _is_tried_in_vain(self) -> bool:
        """Whether only people know that what ran last never commits: of a holder of it nobody knows, or of no other."""
        oracle = self.oracle
        last = oracle.hashes.get(deployment_of(oracle.last or ""))
        return oracle.holder is None and last == hash_of(BAD) and (last in oracle.unknown or not oracle.sound)
