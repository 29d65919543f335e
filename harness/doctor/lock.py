"""Whether another timing run has the machine."""

from __future__ import annotations

import fcntl
import tempfile
from pathlib import Path

from harness.doctor.check import BAD, OK, WARN, Check, Here
from harness.exclusive import LOCK

NOBODY = Check("timing lock", OK, "no other timing run")


def lock(here: Here) -> list[Check]:
    """The lock that `machine=exclusive` takes."""
    return [lock_line(Path(tempfile.gettempdir()) / LOCK)]


def lock_line(file: Path) -> Check:
    """Holds the lock together with others for a moment: that fails while a run has it alone."""
    try:
        with file.open("rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return NOBODY
    except BlockingIOError:
        holder = file.read_text(errors="replace").strip() or "unknown"
        text = f"process {holder} measures on this machine"
        return Check("timing lock", BAD, text, "wait for it, or machine=wait queues behind it")
    except OSError as error:
        return Check("timing lock", WARN, f"cannot be asked for: {error.strerror}")
    return NOBODY
