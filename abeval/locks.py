"""Locks that the system drops with the process that holds them, however it ends.

`files.py` locks saved aggregates, histories and drafts, `scratch.py` temporary folders. They are
flocks of open files and not the existence or content of a file: those would outlive a killed
process, and its number may belong to another process later.
"""

import os
import sys
from pathlib import Path

if sys.platform != "win32":
    import fcntl


def take(descriptor: int) -> bool:
    """Lock an open file without waiting; False if another process, or another opening, has it.

    Raises:
        OSError: The file system has no locks.

    Example:
        >>> from tempfile import TemporaryFile
        >>> with TemporaryFile() as file:
        ...     take(file.fileno())
        True
    """
    if sys.platform == "win32":
        # It has no flock; there, no open file can be removed either.
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_still(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one at its path; another process may have removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
