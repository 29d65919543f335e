"""A copy of the checkout in which mutations are applied; the checkout itself is never touched."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.mutations.mutation import ROOT, Mutation

OURS = ("evict", "harness", "tests")
# Imported once, before pytest runs are forked off: most of a short run's time.
SLOW_TO_IMPORT = ("hydra", "hypothesis", "pandas", "pyarrow.parquet", "scipy.stats", "torch")
PASSED, FAILED = 0, 1
LIMIT_S, TAIL = 900.0, 8


@dataclass(frozen=True)
class Ran:
    """How pytest ended: its exit status (None: not within the limit) and what it printed."""

    status: int | None
    output: str

    @property
    def tail(self) -> str:
        """The end of the output."""
        return "\n".join(self.output.splitlines()[-TAIL:])

    @property
    def failed(self) -> list[str]:
        """Names of the tests that failed, by pytest's summary."""
        return re.findall(r"^(?:FAILED|ERROR) \S+::(\w+)", self.output, re.MULTILINE)


@dataclass(frozen=True)
class Copy:
    """A folder with the files that git tracks or would add."""

    root: Path

    @contextmanager
    def mutated(self, mutation: Mutation) -> Iterator[None]:
        """The copy with one careless variant in it; raises Stale where it does not fit."""
        path = self.root / mutation.file
        text = mutation.applied(self.root)
        before = path.read_text(encoding="utf-8")
        path.write_text(text, encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(before, encoding="utf-8")

    def test(self, prefixes: Iterable[str], files: Iterable[str], *options: str) -> Ran:
        """Run the tests whose names begin so; they import the copy, in child processes as well."""
        arguments = [*options, "-p", "no:cacheprovider", "-k", " or ".join(prefixes)]
        arguments += [f"tests/{file}" for file in files]
        with tempfile.NamedTemporaryFile() as said:
            for name in SLOW_TO_IMPORT:
                importlib.import_module(name)
            fork = multiprocessing.get_context("fork")
            process = fork.Process(target=_pytest, args=(self.root, arguments, said.name))
            process.start()
            try:
                process.join(LIMIT_S)
            finally:
                status = process.exitcode
                if status is None:
                    _end(process.pid or 0)
                    process.join()
            late = f"\nnot done in {LIMIT_S:.0f} s" if status is None else ""
            return Ran(status, Path(said.name).read_text() + late)


def _end(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _pytest(root: Path, arguments: Sequence[str], said: str) -> None:
    """In a forked process: pytest in the copy, in a session of its own, with our code unloaded."""
    os.setsid()
    for name in [name for name in sys.modules if name.split(".")[0] in OURS]:
        del sys.modules[name]
    elsewhere = [place for place in sys.path if Path(place or ".").resolve() != ROOT]
    sys.path[:] = [str(root), *elsewhere]
    os.environ |= {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.dont_write_bytecode = True
    os.chdir(root)
    with open(said, "w") as file, redirect_stdout(file), redirect_stderr(file):
        import pytest

        code = int(pytest.main(list(arguments)))
    sys.exit(code)


@contextmanager
def copied(root: Path = ROOT) -> Iterator[Copy]:
    """The checkout's files in a temporary folder, which is removed in the end."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        for name in filter(None, listed.stdout.split("\0")):
            if (root / name).is_file():
                target = Path(folder, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, target)
        yield Copy(Path(folder))
