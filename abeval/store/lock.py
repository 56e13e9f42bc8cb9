"""One run at a time: a lock on a file, which the system drops with the process that holds it.

`store/collect.py` holds it while it works on the folder of a store, `store/saved.py` while it
writes aggregates.
"""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from abeval.errors import ExperimentError
from abeval.locks import is_still, take
from abeval.store.manifest import LOCK


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Lock a folder.

    A lock file that a killed run left, whatever is in it, is taken over.

    Raises:
        ExperimentError: Another run holds it.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder, held(Path(folder)):
        ...     sorted(path.name for path in Path(folder).iterdir())
        ['lock']
    """
    file = folder / LOCK
    try:
        descriptor = _taken(file)
    except OSError as error:
        what = f"{folder} cannot be locked: {error.strerror}"
        raise ExperimentError(what, "use a writable folder, on a disk that has locks") from error
    try:
        yield
    finally:
        try:
            file.unlink(missing_ok=True)
        finally:
            os.close(descriptor)


def _taken(file: Path) -> int:
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        if not take(descriptor):
            owner = os.pread(descriptor, 200, 0).decode("utf-8", "replace")
            os.close(descriptor)
            raise ExperimentError(f"{file.parent} is in use{_by(owner)}", "wait for it to end")
        # The run that had it may have removed the file in between.
        if is_still(descriptor, file):
            _sign(descriptor)
            return descriptor
        os.close(descriptor)


def _sign(descriptor: int) -> None:
    """Write who holds it, for the message to others; on a full disk they are told less."""
    owner = json.dumps({"pid": os.getpid(), "host": socket.gethostname()})
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, owner.encode(), 0)


def _by(owner: str) -> str:
    try:
        who = json.loads(owner)
        return f" by process {who['pid']} on {who['host']}"
    except (ValueError, KeyError, TypeError):
        return " by another run"
