"""The id of a submission whose application has no known id yet: a tag that the application will have. Pure.

Spark's own client asks YARN for the application's id, and sends it on, in one go. So what is written down before is an
id of ours. It says when it was made: one program at most is ever started with it, within a bound that counts from then
(docs/clusters.md#kerberos). After the bound it cannot be sent any more, and an application that is not there then never
comes.
"""

from __future__ import annotations

import re
import secrets

SUBMIT_SECONDS = 240.0
"""So long after an id was made the program that may send it is killed, at the latest, whatever is done to the clock."""
COME_SECONDS = 300.0
"""So long an application of an id may still come: the clocks of two machines differ, and YARN may be slow."""
_SUBMISSION = re.compile(r"submission-(\d{13})-[0-9a-f]{16}", re.ASCII)


def new_submission(now: float) -> str:
    """Return a new id; `now` in seconds since 1970."""
    return f"submission-{int(now * 1000):013}-{secrets.token_hex(8)}"


def is_submission(id: str) -> bool:
    """Return whether a text is such an id."""
    return _SUBMISSION.fullmatch(id) is not None


def made_at(id: str) -> float:
    """Return when an id was made, in seconds since 1970, by its maker's clock."""
    found = _SUBMISSION.fullmatch(id)
    assert found is not None
    return int(found.group(1)) / 1000


def may_come(id: str, now: float) -> bool:
    """Return whether an application of this id that YARN does not know may still come."""
    return now < made_at(id) + COME_SECONDS
