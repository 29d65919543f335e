"""Whole Python objects over a socket, with a time limit; for two processes of ours that trust."""

from __future__ import annotations

import pickle
import socket
import struct
import time
from typing import Any

LENGTH = struct.Struct("!Q")
CHUNK_BYTES = 1 << 20


class LinkClosed(Exception):
    """The other process has ended, or closed its end."""


def pack(value: object) -> bytes:
    """The object as `Link.send_packed` takes it; raises what pickle raises."""
    body = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(body)) + body


class Link:
    """One end of a socket pair. Nothing here wakes up before something arrives."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._arrived = bytearray()

    def send(self, value: object, limit_s: float | None = None) -> None:
        """`send_packed` of a pickled object; nothing is sent of what cannot be pickled."""
        self.send_packed(pack(value), limit_s)

    def send_packed(self, packed: bytes, limit_s: float | None = None) -> None:
        """TimeoutError where the other side reads too slowly, LinkClosed where it has ended."""
        self._end.settimeout(limit_s)
        try:
            self._end.sendall(packed)
        except ConnectionError as error:
            raise LinkClosed(str(error)) from error

    def receive(self, limit_s: float | None = None) -> Any:
        """The next object, whole; None waits for ever.

        TimeoutError (what has arrived of it is kept), LinkClosed; any error of its own unpickling,
        after which the next one can be received.
        """
        deadline = None if limit_s is None else time.monotonic() + limit_s
        size = LENGTH.unpack(self._take(LENGTH.size, deadline, keep=True))[0]
        return pickle.loads(self._take(LENGTH.size + size, deadline)[LENGTH.size :])

    def close(self) -> None:
        """Let the other side see the end."""
        self._end.close()

    def _take(self, size: int, deadline: float | None, keep: bool = False) -> bytes:
        """The next `size` bytes, left in place with `keep`."""
        while len(self._arrived) < size:
            self._arrived += self._more(deadline)
        taken = bytes(self._arrived[:size])
        if not keep:
            del self._arrived[:size]
        return taken

    def _more(self, deadline: float | None) -> bytes:
        self._end.settimeout(None if deadline is None else max(0.0, deadline - time.monotonic()))
        try:
            found = self._end.recv(CHUNK_BYTES)
        except BlockingIOError:
            raise TimeoutError("nothing has arrived") from None
        except ConnectionError as error:
            raise LinkClosed(str(error)) from error
        if not found:
            raise LinkClosed("end of the link")
        return found
