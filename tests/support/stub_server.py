"""A small real HTTP server with the flags and answers of SGLang's, and ways to misbehave.

Run as a script. --prints TEXT is written to stderr at the start; --dies-after S ends it with status
1; --never-ready keeps /health at 503; --other-token and --other-model answer as somebody else's
server; --spawns NAMES starts processes (plain, stubborn,
setsid, orphan, headless); --quits (parent,
group) does to them what SGLang does when a scheduler fails; --pids FILE gets one process id a
line, its parent's first; --hears FILE gets what was asked last.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("host", "api-key", "weight-version", "model-path"):
        parser.add_argument(f"--{name}", default="")
    for name in ("prints", "pids", "other-token", "other-model", "hears"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--dies-after", type=float)
    parser.add_argument("--spawns", nargs="+", default=[])
    parser.add_argument("--quits", nargs="+", default=[])
    for name in ("never-ready", "ignores-sigterm"):
        parser.add_argument(f"--{name}", action="store_true")
    return parser.parse_args()


def note(options: argparse.Namespace, pid: int) -> None:
    if options.pids:
        with Path(options.pids).open("a") as file:
            file.write(f"{pid}\n")


def spawn(options: argparse.Namespace, kind: str) -> None:
    """Fork a process that only ends when it is made to."""
    if os.fork():
        return
    if kind in ("setsid", "orphan"):
        os.setsid()
    if kind == "orphan" and os.fork():
        os._exit(0)
    if kind != "plain":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if kind == "headless":
        threading.Thread(target=time.sleep, args=(120,), daemon=True).start()
        note(options, os.getpid())
        ctypes.CDLL(None).pthread_exit(None)
    note(options, os.getpid())
    time.sleep(120)
    os._exit(0)


def fail_like_sglang(options: argparse.Namespace) -> None:
    """A scheduler that fails sends SIGQUIT to its parent and may kill its whole group."""
    if "parent" in options.quits:
        os.kill(os.getppid(), signal.SIGQUIT)
    if "group" in options.quits and os.fork() == 0:
        noted = Path(options.pids)
        while len(noted.read_text().splitlines()) < 2 + len(options.spawns):
            time.sleep(0.01)
        os.kill(os.getppid(), signal.SIGQUIT)
        os.killpg(os.getpgrp(), signal.SIGKILL)


class Answers(BaseHTTPRequestHandler):
    options: argparse.Namespace

    def do_GET(self) -> None:
        options = self.options
        if options.hears:
            Path(options.hears).write_text(self.path + str(self.headers))
        if self.path == "/health":
            return self.answer(503 if options.never_ready else 200)
        if self.headers.get("Authorization") != f"Bearer {options.api_key}" and options.api_key:
            return self.answer(401, {"error": "Unauthorized"})
        token = options.other_token or options.weight_version
        model = options.other_model or options.model_path
        return self.answer(200, {"weight_version": token, "model_path": model})

    def do_POST(self) -> None:
        """A generation that never comes."""
        time.sleep(120)

    def answer(self, status: int, document: dict[str, Any] | None = None) -> None:
        body = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    options = parse()
    print(f"server_args: api_key={options.api_key!r}", flush=True)
    print(f"EVICT_CONFIG={os.environ.get('EVICT_CONFIG')}", flush=True)
    if options.prints:
        print(options.prints, file=sys.stderr, flush=True)
    if options.ignores_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note(options, os.getppid())
    note(options, os.getpid())
    for kind in options.spawns:
        spawn(options, kind)
    fail_like_sglang(options)
    if options.dies_after is not None:
        time.sleep(options.dies_after)
        sys.exit(1)
    Answers.options = options
    server = ThreadingHTTPServer((options.host, options.port), Answers)
    threading.Thread(target=server.serve_forever).start()


if __name__ == "__main__":
    main()
