"""Who listens on a port of this machine: asked before anything is sent to it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from pathlib import Path

from evict.errors import InputError

LOOPBACK = "127.0.0.1"
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
LISTENING = "0A"
HERE = {
    "0100007F",  # 127.0.0.1
    "00000000",
    "0" * 32,
    "0000000000000000FFFF00000100007F",  # 127.0.0.1 in IPv6
}


def free_port() -> int:
    """A loopback port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def check_free(port: int) -> None:
    """InputError, with the owner's process id where the system tells it, if the port is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise InputError(
                f"port {port} cannot be used: {owner(port)}",
                seen=error.strerror,
                hint="leave the port out and a free one is chosen, or end that process",
            ) from None


def owner(port: int) -> str:
    """Who listens on the port, in words."""
    inodes = listeners(port) or set()
    every = (int(entry.name) for entry in Path("/proc").glob("[0-9]*"))
    pids = [pid for pid in every if inodes & sockets(pid)] if inodes else []
    if not pids:
        return "another process listens on it"
    names = (f"{pid} ({_command(pid)})" for pid in pids)
    return f"process {', '.join(names)} listens on it"


def listeners(port: int) -> set[int] | None:
    """Inodes of the sockets that listen on the loopback port; None where /proc does not tell."""
    inodes: set[int] = set()
    if not TABLES[0].exists():
        return None
    for table in TABLES:
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            fields = line.split()
            address, _, number = fields[1].partition(":")
            if fields[3] == LISTENING and int(number, 16) == port and address in HERE:
                inodes.add(int(fields[9]))
    return inodes


def held_by(inodes: set[int], pids: Iterable[int]) -> bool:
    """Whether these processes hold every one of the sockets."""
    held: set[int] = set()
    for pid in pids:
        held |= sockets(pid)
    return inodes <= held


def sockets(pid: int) -> set[int]:
    """Inodes of the sockets a process has open; empty where it may not be asked."""
    found: set[int] = set()
    try:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            name = os.readlink(entry.path)
            if name.startswith("socket:["):
                found.add(int(name[len("socket:[") : -1]))
    except OSError:
        return found
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "ended"
