"""Python imports this at its start when its folder is on PYTHONPATH: `time.time()` then follows the run's clock files.

A process whose pid names a file in the folder $CHAOS_CLOCKS has a clock that is off by so many seconds. It is for
Python's `time.time()` and `time.time_ns()` only: neither the JVM's clock nor `datetime.now()` is moved.
"""

import os
import time

_FOLDER = os.environ.get("CHAOS_CLOCKS")
# Between two looks at the file, by the monotonic clock, which is never moved.
_SECONDS = 0.2
_time, _time_ns, _monotonic = time.time, time.time_ns, time.monotonic
_known = {"until": 0.0, "offset": 0.0}


def _offset() -> float:
    now = _monotonic()
    if now >= _known["until"]:
        try:
            with open(f"{_FOLDER}/{os.getpid()}") as file:
                _known["offset"] = float(file.read() or 0)
        except (OSError, ValueError):
            _known["offset"] = 0.0
        _known["until"] = now + _SECONDS
    return _known["offset"]


if _FOLDER:
    time.time = lambda: _time() + _offset()
    time.time_ns = lambda: _time_ns() + int(_offset() * 1e9)
