"""Make temporary folders that later runs remove if their run was killed."""

import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path

from abeval.locks import open_locked, release
from abeval.signals import defer_signals

_LOCK = "lock"


class Scratch:
    """A new temporary folder; folders of dead processes are removed first."""

    def __init__(self, parent: str | Path | None, prefix: str) -> None:
        parent = Path(tempfile.gettempdir() if parent is None else parent)
        _sweep(parent, prefix)
        with defer_signals():
            self.path, descriptor = _create_folder(parent, prefix)
            # A run that nobody closes is cleaned up when Python ends.
            self._remove = weakref.finalize(self, _remove, self.path, descriptor)

    def close(self) -> None:
        """Remove the folder and everything in it."""
        with defer_signals():
            self._remove()


def _create_folder(parent: Path, prefix: str) -> tuple[Path, int]:
    while True:
        folder = parent / f"{prefix}{os.urandom(8).hex()}"
        folder.mkdir(0o700)
        # Another process may sweep it away before it is locked.
        with suppress(FileNotFoundError):
            descriptor = open_locked(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            if descriptor is not None:
                return folder, descriptor


def _sweep(parent: Path, prefix: str) -> None:
    """Remove the folders of dead processes."""
    for folder in parent.glob(prefix + "[0-9a-f]" * 16):
        with suppress(OSError):
            if not folder.is_symlink():
                _remove_if_dead(folder)


def _remove_if_dead(folder: Path) -> None:
    try:
        descriptor = open_locked(folder / _LOCK, os.O_RDWR)
    except FileNotFoundError:
        # Its process was killed, or will make another one, before there was a lock.
        folder.rmdir()
        return
    if descriptor is not None:
        _remove(folder, descriptor)


def _remove(folder: Path, descriptor: int) -> None:
    release(descriptor, lambda: shutil.rmtree(folder, ignore_errors=True))
