"""Only what `pyproject.toml` declares can be imported: a fresh install, on any machine."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]


class _OnlyDeclared(MetaPathFinder):
    """Refuses top-level modules that only other distributions have."""

    def __init__(self) -> None:
        allowed = declared()
        self._refused = {
            module
            for module, owners in packages_distributions().items()
            if not {canonicalize_name(owner) for owner in owners} & allowed
        } - {"abeval"}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: object = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] in self._refused:
            raise ModuleNotFoundError(f"{fullname} is not a declared dependency", name=fullname)
        return None


def declared() -> set[str]:
    """The declared dependencies, and all that they depend on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    todo, known = list(project["dependencies"]), set[str]()
    while todo:
        requirement = Requirement(todo.pop())
        name = canonicalize_name(requirement.name)
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if name in known or not wanted:
            continue
        known.add(name)
        try:
            todo += requires(name) or []
        except PackageNotFoundError:
            continue
    return known


def block_others() -> None:
    """From now on, this process imports nothing but the standard library and what is declared."""
    sys.meta_path.insert(0, _OnlyDeclared())
