"""One run at a time: a lock file with the process that holds it.

`store/collect.py` holds it while it works on the folder of a store.
"""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from abeval.errors import ExperimentError
from abeval.store.manifest import LOCK


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Lock a store.

    The lock of a dead process of this machine is taken over.

    Raises:
        ExperimentError: Another run holds it.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder, held(Path(folder)):
        ...     sorted(path.name for path in Path(folder).iterdir())
        ['lock']
    """
    file = folder / LOCK
    _take(file)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def _take(file: Path) -> None:
    owner = json.dumps({"pid": os.getpid(), "host": socket.gethostname()})
    for _ in range(2):
        try:
            with file.open("x", encoding="utf-8") as opened:
                opened.write(owner)
        except FileExistsError:
            _free_if_dead(file)
        except OSError as error:
            raise ExperimentError(f"the store cannot be locked: {error.strerror}") from error
        else:
            return
    raise ExperimentError(f"the store is in use: {file} was taken by another run", _WAIT)


_WAIT = "wait for it to end; if no run is left, remove the lock file"


def _free_if_dead(file: Path) -> None:
    """Remove the lock of a dead process.

    Raises:
        ExperimentError: The process may be alive.
    """
    try:
        owner = json.loads(file.read_text(encoding="utf-8"))
        pid, host = int(owner["pid"]), str(owner["host"])
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError):
        raise ExperimentError(
            f"the store is in use, or was: {file} cannot be read", _WAIT
        ) from None
    if host == socket.gethostname() and not _is_alive(pid):
        file.unlink(missing_ok=True)
        return
    raise ExperimentError(f"the store is in use by process {pid} on {host}", _WAIT)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
