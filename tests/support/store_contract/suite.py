"""What every store of control logs has to hold, whatever befalls it.

A test file derives classes from `StoreContract`, `StoreOutages` and `StoreRaces`, and has a fixture `place` with the
stores that it can run.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from airflow_stream_provider.control.log import ControlLog, make_record
from airflow_stream_provider.lifecycle.errors import (
    ControlLogDamaged,
    ControlLogReplaced,
    ControlUnavailable,
    SeqTaken,
)
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.runtime.places import AnsweringStore
from tests.support.race import told
from tests.support.store_contract.acts import able, answered, begun, grow, names, settled, stopped, unavailable
from tests.support.store_contract.place import Place, fates, log_of
from tests.support.story import NEW, OLD, RUNNING, declared, write

SOON, NEVER = 0.3, 600.0
LONG = "x" * 3000


class StoreContract:
    """What takes no long time."""

    def test_a_number_is_created_once(self, place: Place) -> None:
        mine, other = place.open().store, place.open().store
        first, second = (make_record("noted", name).numbered(1).to_json() for name in ("first", "second"))
        assert (mine.read(1), mine.next_number(0), other.origin()) == (None, None, "")
        mine.create(1, first)
        for store in (mine, other):
            with pytest.raises(SeqTaken):
                store.create(1, second)
            assert (store.read(1), store.read(2)) == (first, None)
            assert (store.next_number(0), store.next_number(1)) == (1, None)
        assert mine.origin() == other.origin() == log_of(place.open()).records()[0].nonce

    def test_what_only_the_last_of_counts_is_replaced(self, place: Place) -> None:
        mine, other = place.open().store, place.open().store
        assert (other.saved_state(), other.topic_ids(), other.heartbeat(OLD), other.heartbeats()) == (
            *(None, None, None),
            [],
        )
        for value in (b"a longer one", b"new"):
            mine.put_saved_state(value)
            mine.put_topic_ids(value)
            mine.put_heartbeat(OLD, value)
        for store in (mine, other, place.open().store):
            assert (store.saved_state(), store.topic_ids(), store.heartbeat(OLD)) == (b"new",) * 3
            assert (store.heartbeat(NEW), store.heartbeats()) == (None, [OLD])

    def test_a_log_tells_the_same_to_whoever_reads_it(self, place: Place) -> None:
        log, other = log_of(place.open()), log_of(place.open())
        assert other.refresh().seq == 0
        write(log, *RUNNING)
        log.beat(OLD, Heartbeat(counter=7))
        for each in (other, log_of(place.open())):
            assert each.refresh() == log.refresh()
            assert each.state.holder == OLD
            assert each.heartbeats() == {OLD: Heartbeat(counter=7)}

    @pytest.mark.parametrize("then_away", [False, True])
    def test_a_write_whose_answer_is_lost_counts_once(self, place: Place, then_away: bool) -> None:
        able(place, "answer_lost")
        way = place.open()
        log = log_of(way)
        write(log, declared("first"))
        with way.answer_lost(then_away):
            if then_away:
                with unavailable():
                    log.append(declared("mine"), 1)
                assert log.state.seq == 1, "it counts as not written until it is read"
            else:
                # By what is read back.
                assert log.append(declared("mine"), 1).seq == 2
        assert settled(log, "mine").seq == 2
        assert settled(log_of(place.open()), "mine").seq == 2
        write(log, declared("next"))
        assert names(place) == ["first", "mine", "next"]
        assert place.copies(2) == 1

    @pytest.mark.parametrize("meanwhile", ["nobody writes", "it is asked again"])
    def test_a_write_that_lands_late_counts_where_it_lands_or_not_at_all(self, place: Place, meanwhile: str) -> None:
        able(place, "held")
        way = place.open()
        slow, quick = log_of(way), log_of(place.open())
        write(quick, declared("first"))
        slow.refresh()
        with ThreadPoolExecutor(1) as pool:
            with way.held() as on_its_way:
                writing = pool.submit(slow.append, declared("late"), 1)
                on_its_way()
                assert quick.refresh().seq == 1
                if meanwhile == "it is asked again":
                    assert settled(quick, "late").seq == 2
            if meanwhile == "it is asked again":
                with pytest.raises((SeqTaken, ControlUnavailable)):
                    writing.result()
            else:
                with suppress(ControlUnavailable):  # it has waited for longer than it does
                    assert writing.result().seq == 2
        for log in (slow, quick):
            assert settled(log, "late").seq == 2
        write(slow, declared("next"))
        assert names(place) == ["first", "late", "next"]

    def test_behind_a_gap_nobody_reads_or_writes(self, place: Place) -> None:
        log, reader = begun(place, "first", "second"), log_of(place.open())
        reader.refresh()
        place.gap(4, declared("fourth").numbered(4, "f" * 32).to_json())
        with pytest.raises(ControlLogDamaged, match=r"Record 3 .* is missing"):
            log_of(place.open()).refresh()
        for each in (log, reader, log_of(place.open())):
            with pytest.raises(ControlLogDamaged, match=r"Record 3 .* is missing"):
                each.append(declared("third"), 2)
        assert place.copies(3) == 0

    def test_a_log_that_has_lost_its_beginning_is_refused_by_whoever_opens_it(self, place: Place) -> None:
        able(place, "lose_beginning")
        log = begun(place, "first", "second")
        place.lose_beginning()
        fresh = log_of(place.open())
        for act in (fresh.refresh, lambda: fresh.append(declared("third"), 0)):
            with pytest.raises(ControlLogDamaged):
                act()
        assert log.refresh().seq == 2, "who had read it, knows what it said"

    @pytest.mark.parametrize("grown", [0, 1, 3])
    def test_whoever_has_read_a_log_that_was_put_back_stops(self, place: Place, grown: int) -> None:
        able(place, "put_back")
        log, reader = begun(place, "first", "second"), log_of(place.open())
        copied = place.copy()
        write(log, declared("lost"))
        reader.refresh()
        place.put_back(copied)
        grow(place, 2, grown)
        for each in (log, reader):
            stopped(each, ControlLogReplaced)
        assert names(place) == ["first", "second", *map(str, range(grown))]

    @pytest.mark.parametrize("grown", [0, 3])
    def test_whoever_has_read_a_log_that_was_made_anew_stops(self, place: Place, grown: int) -> None:
        able(place, "make_anew")
        log, reader = begun(place, "first", "second"), log_of(place.open())
        reader.refresh()
        place.make_anew()
        grow(place, 0, grown)
        for each in (log, reader):
            stopped(each, ControlLogReplaced)
        assert names(place) == [*map(str, range(grown))]

    def test_who_reads_an_old_state_writes_nothing(self, place: Place) -> None:
        able(place, "stale")
        way, log = place.open(), begun(place, "first")
        behind = log_of(way)
        behind.refresh()
        with way.stale():
            write(log, declared("second"))
            assert behind.refresh().seq == 1
            with pytest.raises((SeqTaken, ControlUnavailable)):
                behind.append(declared("old"), 1)
        assert behind.refresh().seq == 2
        assert names(place) == ["first", "second"]

    def test_a_store_that_hangs_is_an_outage(self, place: Place) -> None:
        able(place, "hanging")
        way = place.open()
        store = AnsweringStore(way.store, NEVER)  # as drivers have one
        log = ControlLog(store, "orders")
        write(log, declared("first"))
        with way.hanging():
            store._seconds = SOON
            for act in (
                log.refresh,
                lambda: log.append(declared("mine"), 1),
                lambda: log.beat(OLD, Heartbeat(counter=1)),
            ):
                with unavailable():
                    act()
        store._seconds = NEVER
        assert settled(log, "mine").seq == 2
        answered(lambda: log.beat(OLD, Heartbeat(counter=2)))
        assert log_of(place.open()).heartbeat(OLD) == Heartbeat(counter=2)
        assert names(place) == ["first", "mine"]
        assert place.copies(2) == 1

    def test_a_slow_store_loses_and_doubles_nothing(self, place: Place) -> None:
        able(place, "slow")
        ways = [place.open() for _ in range(3)]

        def declares(number: int) -> list[int]:
            log = log_of(ways[number])
            with ways[number].slow():
                return [log.propose(lambda state, n=n: declared(f"{number}-{n}")).seq for n in range(3)]  # type: ignore[misc]

        with ThreadPoolExecutor(len(ways)) as pool:
            won = list(pool.map(declares, range(len(ways))))
        assert sorted(seq for each in won for seq in each) == list(range(1, 10))
        found = names(place)
        assert found == [f"{n}-{won[n].index(seq)}" for seq in range(1, 10) for n in range(3) if seq in won[n]]


class StoreOutages:
    """What ends a broker, or takes its disk away."""

    def test_a_full_store_takes_nothing_and_keeps_all(self, place: Place) -> None:
        able(place, "full")
        log = begun(place, "first")
        note = make_record("noted", "test", text=LONG)
        with place.full():
            with unavailable():
                log.append(note, 1)
            with unavailable():
                log.beat(OLD, Heartbeat(counter=2, message=LONG))
        fresh = log_of(place.open())
        assert answered(fresh.refresh).seq == 1
        assert fresh.heartbeat(OLD) == Heartbeat(counter=1)
        assert answered(lambda: log.append(note, log.refresh().seq)).seq == 2
        answered(lambda: log.beat(OLD, Heartbeat(counter=3, message=LONG)))
        assert fresh.refresh() == log.refresh()
        assert fresh.heartbeat(OLD) == Heartbeat(counter=3, message=LONG)

    def test_a_store_that_is_away_is_an_outage_and_no_empty_log(self, place: Place) -> None:
        able(place, "away")
        log, reader = begun(place, "first"), log_of(place.open())
        reader.refresh()
        with place.away():
            for act in (
                reader.refresh,
                lambda: log.append(declared("mine"), 1),
                lambda: log.beat(OLD, Heartbeat(counter=2)),
            ):
                with unavailable():
                    act()
        # Nothing of it had been sent.
        assert names(place) == ["first"]
        for each in (log, reader):
            assert settled(each, "mine").seq == 2
        assert names(place) == ["first", "mine"]

    def test_whoever_has_read_an_end_that_was_lost_stops(self, place: Place) -> None:
        able(place, "lose_end")
        log, reader = begun(place, "first", "second"), log_of(place.open())
        write(log, declared("lost"))
        reader.refresh()
        place.lose_end()
        for each in (log, reader):
            stopped(each, ControlLogReplaced, ControlLogDamaged)
        grow(place, 2, 2)
        for each in (log, reader):
            stopped(each, ControlLogReplaced)
        assert names(place) == ["first", "second", "0", "1"]


class StoreRaces:
    """Many processes that write at the same time."""

    WRITERS, WINS = 20, 4

    def test_of_twenty_writers_one_gets_each_number(self, place: Place) -> None:
        able(place, "race")
        writers = place.race(self.WRITERS, self.WINS)
        assert len(writers) == self.WRITERS
        log = log_of(place.open())
        records = log.records()
        total = self.WRITERS * self.WINS
        assert fates(writers) == [(record.seq, record.by) for record in records]
        assert [record.seq for record in records] == list(range(1, total + 1))
        assert Counter(each["told"] for each in writers) == {told(log): self.WRITERS}
