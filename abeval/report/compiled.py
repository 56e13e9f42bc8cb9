"""Keep compiled templates where Python keeps compiled modules."""

import os
import sys
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path

from jinja2 import BytecodeCache
from jinja2.bccache import Bucket


class CompiledTemplates(BytecodeCache):
    """Read templates that an earlier process has compiled, and keep those that this one compiles.

    Jinja compiles again what another source or another version of Python or Jinja has compiled.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _file(self, bucket: Bucket) -> Path:
        return Path(cache_from_source(str(self._folder / f"{bucket.key}.py")))

    def load_bytecode(self, bucket: Bucket) -> None:
        """Load a template, if it is there."""
        with suppress(OSError), self._file(bucket).open("rb") as file:
            bucket.load_bytecode(file)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a template, unless modules are not kept either."""
        if sys.dont_write_bytecode:
            return
        path = self._file(bucket)
        draft = path.with_suffix(f".{os.getpid()}")
        # The folder of an installed package may be read-only.
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(bucket.bytecode_to_string())
            draft.replace(path)
