"""Files that are there whole or not at all, files that only grow, and sums of what was written."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from evict.errors import InputError

# What no other attempt in the same place can overcome; a full disk is not among them.
REFUSED = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.EISDIR)
BLOCK = 4096


def replace_text(path: Path, text: str) -> None:
    """Write a small file so that it is there completely or not at all, after a power cut too."""
    replace_bytes(path, text.encode("utf-8"))


def replace_bytes(path: Path, content: bytes) -> None:
    """The same for bytes."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to; it takes the place of `path` when the block ends without an error."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield temporary
        sync(temporary)
        os.replace(temporary, path)
        sync_names(path.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def sync(file: Path) -> None:
    """Have the disk hold a file's bytes."""
    handle = os.open(file, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_names(folder: Path) -> None:
    """Have the disk hold which files a folder has; some network file systems cannot say."""
    try:
        sync(folder)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise


class Growing:
    """A file that grows by whole lines. A line that does not fit leaves nothing behind."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

    def size(self) -> int:
        """Bytes so far."""
        return os.lseek(self._open, 0, os.SEEK_END)

    def write(self, line: bytes) -> None:
        """Append; on a failure the file is as before. Raises OSError that names the file."""
        before, rest = self.size(), memoryview(line)
        try:
            while rest:
                rest = rest[os.write(self._open, rest) :]
        except OSError as error:
            self.cut(before)
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def cut(self, size: int) -> None:
        """Back to this many bytes, as far as the disk lets us."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._open, size)

    def close(self) -> None:
        """Let go of the file; what was written stays."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    @property
    def _open(self) -> int:
        if self._handle is None:
            raise ValueError(f"{self.path} is closed")
        return self._handle


def sha256(file: Path) -> str:
    """Hash of a file's bytes, in hex."""
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


@contextlib.contextmanager
def refusals(place: Path) -> Iterator[None]:
    """Say in words that results cannot be written here. Other OSErrors, a full disk say, pass."""
    try:
        yield
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        raise InputError(
            "results cannot be written here",
            seen=f"{error.filename or place}: {error.strerror}",
            hint="results_dir=FOLDER names another place",
        ) from error


def check_writable(results: Path) -> None:
    """InputError unless files can be made at `results`, which need not be there yet.

    Leaves nothing behind. Raises OSError where the disk is full already.
    """
    whole = results.absolute()
    place = next(folder for folder in (whole, *whole.parents) if folder.exists())
    with refusals(place), tempfile.TemporaryFile(dir=place) as file:
        file.write(bytes(BLOCK))
        file.flush()
