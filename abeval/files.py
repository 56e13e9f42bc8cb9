"""The writer of all output files: a file is either complete or not there.

Called by `cli/` (JSON, CSV), `report/` (pages) and `store/` (its own files).
"""

import os
import secrets
from pathlib import Path

from abeval.errors import AbevalError


def write_text(path: Path, text: str) -> Path:
    """Write UTF-8 text so that nobody ever reads a part of it.

    A temporary file in the same folder replaces the target in one step. A target that is not a
    regular file, such as `/dev/stdout`, is written directly.

    Args:
        path: The file; its folder must exist.
        text: What to write; its newlines are not changed.

    Returns:
        The path.

    Raises:
        AbevalError: The folder is missing, not writable, or full.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_text(Path(folder) / "a.txt", "whole").read_text()
        'whole'
    """
    # A lone surrogate has no UTF-8; its escape is also valid in JSON.
    data = text.encode("utf-8", "backslashreplace")
    try:
        _write(path, data)
    except OSError as error:
        raise AbevalError(*_explain(path, error)) from error
    return path


def check_writable(path: Path) -> None:
    """Raise before long work what `write_text` would raise after it.

    Raises:
        AbevalError: The folder is missing or not writable.
    """
    folder = path.parent
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise AbevalError(*_explain(path, PermissionError("not writable")))


def _write(path: Path, data: bytes) -> None:
    if path.exists() and not path.is_file() and not path.is_dir():
        path.write_bytes(data)
        return
    target = path.resolve()
    draft = target.parent / f".abeval-{secrets.token_hex(8)}"
    try:
        _write_through(draft, data)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _write_through(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _explain(path: Path, error: OSError) -> tuple[str, str]:
    """What went wrong, and how to correct it."""
    if path.is_dir():
        return f"cannot write {path}: it is a folder", "name a file inside it"
    folder = path.parent
    if not folder.exists():
        return f"cannot write {path}: the folder {folder} does not exist", f"run mkdir -p {folder}"
    if isinstance(error, PermissionError):
        what = f"cannot write {path}: the folder {folder} is not writable"
        return what, "write to another folder, or change its permissions"
    what = f"cannot write {path}: {error.strerror or error}"
    return what, "check the path and the space left on the disk"
