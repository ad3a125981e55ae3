"""The invariants by name: what oracle, data and quiet phases check."""

from __future__ import annotations

INVARIANTS = {
    "one-writer": "The queries of at most one driver write.",
    "after-the-job": "No driver writes while a job without a stream that is to be adopted runs.",
    "known-writer": "What writes is, by the log, the holder or a driver that must be fenced.",
    "one-holder": "Nobody acquires while another holds.",
    "next-epoch": "The epoch grows by one with each `acquired`.",
    "fence-first": "Nobody acquires before a driver that stopped inside a batch is fenced.",
    "only-the-appointed": "Only the driver that was asked and has answered acquires, or the one that released for it.",
    "take-back-waits": "A releaser takes the stream back only after its wait, or when the appointed driver is lost.",
    "one-request": "At most one request is open, and each is made once.",
    "open-request": "Nobody answers, releases or acquires for a request that is over.",
    "ready-first": "A holder releases to a standby only after that has answered.",
    "moved-first": "A holder releases to a standby only after its heartbeat has moved since its answer.",
    "not-to-the-lost": "A holder releases to no driver that the log says is lost.",
    "confirmed-kill": "`fenced` is written only when the driver and its executors are gone.",
    "silent-first": "A driver is fenced only after its heartbeat has stood still for a lease.",
    "submit-once": "A deployment is not submitted again while its first submission may be alive.",
    "ended-stays": "A deployment that has ended is not declared again, and no driver of it acquires.",
    "legal": "Nobody writes what the rules forbid.",
    "forgery-carried": "A record that the rules forbid, or that is none, changes nothing.",
    "whole-log": "Nobody writes after a record that is missing or that nobody can read.",
    "one-log": "Nobody goes on from a log that was put back from a copy.",
    "no-false-alarm": "Nobody takes a log for damaged, or for another one, that is whole.",
    "beat-is-a-barrier": "A heartbeat renews a lease only when its driver has read every record in front of it.",
    "one-owner": "Whoever asks whose a checkpoint is gets the same answer, for ever.",
    "lease": "A holder that has not read the log for a lease has paused or ended.",
    "paused": "A holder pauses after half a lease without the log.",
    "pause-bounded": "A holder is not paused for longer than its policy says.",
    "goes-on": "A holder that reads the log again goes on.",
    "release-first": "A driver that leaves by itself does not hold.",
    "good-end": "A run that has ended well does not end with the code of a failure.",
    "no-surprise": "Agent, task and watch raise no error that is not theirs.",
    "take-back": "A releaser takes the stream back, without Airflow, when the appointed driver does not come.",
    "appoints-the-living": "Where nobody holds, the watch appoints only a driver that has given a sign of life lately.",
    "stop-stays": "Nothing is started that a person has stopped, or that has finished, before another wish.",
    "rewinds-once": "A deployment sets its stream back once at most, and only while its driver holds.",
    "rewinds-or-tells": "What a person asked to be read again is read again before the next batch, or it is told.",
    "one-wish": "One wish governs who holds, the last one, and one at most what stands by; no other wish counts.",
    "current-wish": "Who holds is changed for the wish only that governs then.",
    "approved-first": "A release that waits for a person's approval is not appointed before somebody gives it.",
    "told": "A stream that is to run and has no holder is never called well.",
    "told-truly": "A task whose wish was replaced says so, by which record and by whom; no other task says so.",
    "as-wanted": "After the faults, what is wished for is so within the bound, or a look says why it cannot be.",
    "as-wished": "Only what is wished for is declared, appointed or stopped, or the release before where that is said.",
    "way-back": "What a wish gives way to, and what a roll-back goes to, has held the stream and was to hold before.",
    "rolled-back-stays": "What a roll-back has put aside is not appointed.",
    "as-asked": "A task that says it is done has reached what it was started for, or somebody has changed that since; "
    "none gives up a start of which a driver was only lost.",
    "intent-first": "A task writes `fenced` only after `fencing`, and ends a job only after `ending`.",
    "heeds-the-fence": "A driver that reads that it was fenced ends in that turn, though a person erred.",
    "holder-commits": "Only the holder by the log commits a batch.",
    "commits-told": "A holder that lets go or fails says truly whether it has committed a batch.",
    "no-gap": "Each batch begins, in each partition, where the one before it ended.",
    "no-double": "A batch is written twice only if its first run was cut off inside it.",
    "runs-again": "After the faults, a driver holds and commits within the bound, without a person.",
}


class Broken(AssertionError):
    """An invariant does not hold. `name`: which one."""

    def __init__(self, name: str, found: object = "") -> None:
        super().__init__(f"{name}: {INVARIANTS[name]} Found: {found}")
        self.name = name


def expect(holds: object, name: str, found: object = "") -> None:
    """Raise Broken unless it holds."""
    if not holds:
        raise Broken(name, found)
