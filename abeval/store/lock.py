"""One run at a time: a lock on a folder, which the system drops with the process that holds it.

`store/collect.py` holds it while it works on the folder of a store, `store/saved.py` while it
writes aggregates.
"""

from contextlib import AbstractContextManager
from pathlib import Path

from abeval import files
from abeval.store.manifest import LOCK


def held(folder: Path) -> AbstractContextManager[None]:
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
    return files.held(folder / LOCK, str(folder))
