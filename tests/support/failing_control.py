"""Let the control folder of a run of chaos fail, and look at it by both paths. Run it in its own mount namespace:

unshare --user --map-root-user --mount python -m tests.support.failing_control FOLDER hang|full|read_only|away
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from chaos.store_faults import ControlFolder

# Hangs until the fault is healed, when the folder hangs.
WRITE = "import pathlib, sys; pathlib.Path(sys.argv[1], sys.argv[2]).write_text('x'); print('written')"


def main(scratch: str, kind: str) -> None:
    folder = Path(scratch)
    control = ControlFolder(folder / "control", folder / "safe", folder / "elsewhere", megabytes=2)
    control.mount()
    (control.folder / "before").write_text("before")
    for turn in range(2):
        control.fail(kind)
        assert (control.safe / "before").read_text() == "before"
        command = [sys.executable, "-c", WRITE, str(control.folder), f"during-{turn}"]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if kind == "hang":
            try:
                writer.wait(3)
            except subprocess.TimeoutExpired:
                control.heal(kind)
            else:
                raise AssertionError("it did not hang")
        else:
            writer.wait(600)
            control.heal(kind)
        said = writer.communicate(timeout=600)[0]
        if kind == "away":
            assert said == "written\n"  # to the empty folder below, as on a machine where it is not mounted
            assert not (control.safe / f"during-{turn}").exists()
        else:
            assert said == ""
        (control.folder / f"after-{turn}").write_text("after")
        assert (control.safe / f"after-{turn}").read_text() == "after"
    control.heal(kind)  # of what is well, nothing
    assert (control.folder / "before").read_text() == "before"
    print("well again")


if __name__ == "__main__":
    main(*sys.argv[1:])
