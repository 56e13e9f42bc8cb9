"""Lock files by locks that end with the process, however it ends.

They are locks of open files and not the existence or content of a file: those would outlive a
killed process, and its number may belong to another process later.
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

if sys.platform == "win32":
    from filelock import lock_descriptor
else:
    import fcntl


def take(descriptor: int) -> bool:
    """Lock an open file without waiting; False if it is locked already.

    By `flock`, and on Windows by `filelock`, which takes too long to import where it is not needed.

    Raises:
        OSError: The file system has no locks.
    """
    if sys.platform == "win32":
        return lock_descriptor(descriptor, blocking=False)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def open_locked(path: Path, flags: int, mode: int = 0o666) -> int | None:
    """Open a file and lock it; None if it is locked or no longer at its path."""
    descriptor = os.open(path, flags, mode)
    with suppress(FileNotFoundError):
        # Another run may have removed it in between, and made a new one of the same name.
        if take(descriptor) and os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    os.close(descriptor)
    return None


def release(descriptor: int, remove: Callable[[], object] = lambda: None) -> None:
    """Remove what a locked file stands for, and close the file.

    On Windows it is closed first: there, no open file can be removed, and one that another process
    has taken in between stays.
    """
    if sys.platform == "win32":
        os.close(descriptor)
        with suppress(OSError):
            remove()
        return
    try:
        remove()
    finally:
        os.close(descriptor)
