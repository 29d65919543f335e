"""The log of one server: written by its processes, read for errors, the secret kept out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from harness.engines.sglang.failures import LAST_LINES

TAIL_BYTES = 512 * 1024
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class LogFile:
    """Lines of one start in a file that may hold earlier ones."""

    def __init__(self, path: Path, secret: str) -> None:
        self.path = path
        self._secret = secret
        self._begin = 0

    def open(self, command: Sequence[str]) -> BinaryIO:
        """The file to write to, opened to append, after a line with the command."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        output = self.path.open("ab")
        self._begin = output.tell()
        output.write(f"$ {self.redact(shlex.join(command))}\n".encode())
        output.flush()
        return output

    def redact(self, text: str) -> str:
        """`text` with the secret replaced by as many stars."""
        return text.replace(self._secret, "*" * len(self._secret))

    def tail(self) -> str:
        """The end of what this start wrote, at most 512 KiB, without colours and secret."""
        size = self.path.stat().st_size
        with self.path.open("rb") as file:
            file.seek(max(self._begin, size - TAIL_BYTES))
            text = file.read().decode(errors="replace")
        return self.redact(COLOURS.sub("", text).replace("\r", "\n"))

    def last_lines(self) -> tuple[str, ...]:
        """The last 30 lines of `tail`."""
        return tuple(self.tail().splitlines()[-LAST_LINES:])

    def strike_out(self) -> None:
        """Overwrite the secret in the file, its length unchanged."""
        written = self.path.read_bytes()
        secret = self._secret.encode()
        if secret in written:
            with self.path.open("r+b") as file:
                file.write(written.replace(secret, b"*" * len(secret)))
