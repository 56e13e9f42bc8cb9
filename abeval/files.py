"""Write output files atomically, and hold lock files."""

import os
import re
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from abeval.errors import AbevalError, ExperimentError
from abeval.locks import open_locked, release
from abeval.signals import defer_signals


def write_text(path: Path, text: str) -> Path:
    """Write UTF-8 text atomically: nobody can read a part of it.

    A draft in the same folder replaces the target in one step and keeps its mode. A target that
    is not a regular file, such as `/dev/stdout`, is written directly.

    Raises:
        AbevalError: The folder is missing, not writable, or full.
    """
    # A lone surrogate has no UTF-8; its escape is also valid in JSON.
    return write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: Path, data: bytes) -> Path:
    """Write bytes atomically, as `write_text` does."""
    stream = _find_stream_descriptor(path)
    try:
        if stream is not None:
            sys.stdout.flush()
            # As it is open: another user's, or a file that has a place to go on.
            with open(stream, "wb", closefd=False) as file:
                file.write(data)
        elif _is_device(path):
            path.write_bytes(data)
        else:
            _replace(resolve_path(path), data)
    except OSError as error:
        raise AbevalError(*_explain(path, error)) from error
    return path


def resolve_path(path: str | Path) -> Path:
    """Resolve a path and its links, as far as they exist.

    Unlike `Path.resolve` of Python 3.11 and 3.12 it accepts links that lead in a circle; who opens
    the path is told of them.
    """
    # No system has longer ones, and to follow one takes the square of its length.
    return Path(os.path.realpath(path) if len(str(path)) < 1 << 15 else path)


_ALLOWED = list[Path]()


@contextmanager
def restrict_reading(folders: Sequence[Path]) -> Iterator[None]:
    """Restrict what users can name to files in these folders, within a block.

    It holds for all threads: those of an engine have no context of the block's own.
    """
    _ALLOWED[:] = map(resolve_path, folders)
    try:
        yield
    finally:
        _ALLOWED.clear()


def check_readable(path: str | Path, user_path: str | Path) -> None:
    """Refuse a path outside the folders of `restrict_reading`.

    Raises:
        ExperimentError: Also of an address such as https://….
    """
    if not _ALLOWED:
        return
    is_place = "://" not in str(path) and "\0" not in str(path)
    if not is_place or not any(map(resolve_path(path).is_relative_to, _ALLOWED)):
        where = f"{user_path} is, or leads, outside the folders that may be read"
        raise ExperimentError(where, f"these are {', '.join(map(str, _ALLOWED))}")


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be written, before long work."""
    if _find_stream_descriptor(path) is not None:
        return
    folder = resolve_path(path).parent
    try:
        if _is_device(path):
            allowed = os.access(path, os.W_OK)
        else:
            allowed = not path.is_dir() and folder.is_dir() and os.access(folder, os.W_OK)
        if not allowed:
            raise PermissionError("not writable")
    except OSError as error:
        raise AbevalError(*_explain(path, error)) from error


def _find_stream_descriptor(path: Path) -> int | None:
    """Return the descriptor of a stream such as `/dev/stdout`; None for other paths."""
    name = _STREAM.fullmatch(str(path))
    if name is None:
        return None
    return {"stdout": 1, "stderr": 2}.get(name[1]) or int(name[2] or 0)


_STREAM = re.compile(r"/(?:dev|proc/self)/(stdout|stderr|fd/(\d+))")


def _is_device(path: Path) -> bool:
    """Tell whether a path is a device or a pipe: to replace one would remove it."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


_DRAFT = ".abeval-"
"""Prefix of the names of drafts; 16 random hexadecimal digits follow."""

_UNLINKED = getattr(os, "O_NOFOLLOW", 0)
"""Flag that refuses to open a link."""


@defer_signals()
def _replace(target: Path, data: bytes) -> None:
    """Replace a file by a draft in its folder; remove the drafts of killed runs."""
    for left in target.parent.glob(_DRAFT + "[0-9a-f]" * 16):
        with suppress(OSError):
            if (descriptor := open_locked(left, os.O_RDONLY | _UNLINKED)) is not None:
                release(descriptor, partial(left.unlink, missing_ok=True))
    draft, descriptor = _create_draft(target)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            # Locked until it has its name, so that no other run takes it for one that was left.
            draft.replace(target)
        # Let the names in the folder outlive a loss of power, where the system can.
        with suppress(OSError):
            descriptor = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    finally:
        draft.unlink(missing_ok=True)


def _create_draft(target: Path) -> tuple[Path, int]:
    """Create a draft next to the target, with its mode, open and locked."""
    mode = stat.S_IMODE(target.stat().st_mode) if target.is_file() else None
    while True:
        draft = target.parent / f"{_DRAFT}{os.urandom(8).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        descriptor = open_locked(draft, flags, 0o666 if mode is None else mode)
        # Another run may sweep it away before it is locked.
        if descriptor is not None:
            if mode is not None:
                draft.chmod(mode)
            return draft, descriptor


@contextmanager
def hold_lock(file: Path, what: str, seconds: float = 0.0) -> Iterator[None]:
    """Hold a lock file, and remove it when released.

    Nothing is written into the file, no link is followed, and a file with content stays: it is
    somebody else's. The file that a killed run left is taken over. `what` it locks is for messages.

    Raises:
        ExperimentError: Another run holds it, or the file cannot be locked.
    """
    end = time.monotonic() + seconds
    try:
        while (descriptor := open_locked(file, os.O_RDWR | os.O_CREAT | _UNLINKED)) is None:
            if time.monotonic() >= end:
                raise ExperimentError(f"{what} is in use by another run", "wait for it to end")
            time.sleep(0.05)
    except OSError as error:
        hint = "remove that file if it is a link; use a writable folder, on a disk that has locks"
        why = f"{what} cannot be locked: {error.strerror} ({file})"
        raise ExperimentError(why, hint) from error
    try:
        yield
    finally:
        is_empty = not os.fstat(descriptor).st_size
        release(descriptor, partial(file.unlink, missing_ok=True) if is_empty else lambda: None)


def _explain(path: Path, error: OSError) -> tuple[str, str]:
    """Explain why a file cannot be written, and how to correct it."""
    # Unlike those of Path, these two never fail.
    if os.path.isdir(path):  # noqa: PTH112
        return f"cannot write {path}: it is a folder", "name a file inside it"
    folder = path.parent
    if not os.path.exists(folder):  # noqa: PTH110
        return f"cannot write {path}: the folder {folder} does not exist", f"run mkdir -p {folder}"
    if isinstance(error, PermissionError):
        what = f"cannot write {path}: the folder {folder} is not writable"
        return what, "write to another folder, or change its permissions"
    what = f"cannot write {path}: {error.strerror or error}"
    return what, "check the path and the space left on the disk"
