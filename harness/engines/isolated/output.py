"""What an engine's process writes: passed on to this process's standard error, its end kept."""

from __future__ import annotations

import os
import sys
import tempfile

TAIL_BYTES = 64 * 1024
LAST_LINES, LINE_CHARACTERS = 20, 300


class Output:
    """A file without a name that the process writes to; read only when asked, by no thread.

    descriptor: what the process inherits. It shares its position with this one, which is why
    nothing here moves it.
    """

    def __init__(self) -> None:
        self.descriptor, name = tempfile.mkstemp(prefix="engine-output-")
        os.unlink(name)
        self._passed = 0
        self._open = True

    def pass_on(self) -> None:
        """Print what is new, at most its last 64 KiB."""
        size = os.fstat(self.descriptor).st_size
        if size == self._passed:
            return
        begin = max(self._passed, size - TAIL_BYTES)
        left_out, self._passed = begin - self._passed, size
        text = self._text(begin, size)
        note = f"[{left_out} bytes left out]\n" if left_out else ""
        sys.stderr.write(note + text)
        sys.stderr.flush()

    def last_lines(self) -> list[str]:
        """The last 20 lines with content, each cut to 300 characters."""
        size = os.fstat(self.descriptor).st_size
        text = self._text(max(0, size - TAIL_BYTES), size)
        lines = [line.rstrip() for line in text.replace("\r", "\n").splitlines()]
        return [line[:LINE_CHARACTERS] for line in lines if line][-LAST_LINES:]

    def close(self) -> None:
        """Print the rest; the file is gone."""
        if self._open:
            self._open = False
            self.pass_on()
            os.close(self.descriptor)

    def _text(self, begin: int, end: int) -> str:
        return os.pread(self.descriptor, end - begin, begin).decode(errors="replace")
