"""Which definitions of the package the command line, the API or a documented call can reach."""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


class Definition(NamedTuple):
    """A function, class or constant of a module."""

    module: str
    name: str


class Package:
    """The definitions of a package, read from its text, and who refers to whom."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self.trees = {module: tree_of(path) for module, path in files.items()}
        self.nodes = {
            Definition(module, name): node
            for module, tree in self.trees.items()
            for node in tree.body
            for name in names_of(node)
        }
        self.imports = {module: dict(self._imported(tree)) for module, tree in self.trees.items()}

    def _imported(self, tree: ast.AST) -> Iterator[tuple[str, tuple[str, str | None]]]:
        """Local name → module and name in it; None where a module is imported."""
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    target = (whole, None) if whole in self.trees else (node.module, alias.name)
                    yield alias.asname or alias.name, target

    def find(self, module: str, name: str) -> Definition | None:
        """The definition that a name means in a module, through re-exports."""
        own = Definition(module, name)
        if own in self.nodes or module not in self.imports:
            return own if own in self.nodes else None
        target = self.imports[module].get(name)
        return None if target is None or target[1] is None else self.find(target[0], target[1])

    def used_by(self, module: str, node: ast.AST) -> Iterator[Definition]:
        """Every definition that a piece of code refers to."""
        for part in ast.walk(node):
            match part:
                case ast.Name(id=name) | ast.Constant(value=str(name)) if name.isidentifier():
                    found = self.find(module, name)
                case ast.Attribute(value=ast.Name(id=local), attr=name):
                    target = self.imports[module].get(local)
                    whole = target is not None and target[1] is None
                    found = self.find(target[0], name) if whole and target is not None else None
                case _:
                    continue
            if found is not None:
                yield found

    def reached(self, roots: set[Definition]) -> set[Definition]:
        """All that the roots refer to, directly or through others."""
        seen: set[Definition] = set()
        waiting = list(roots)
        while waiting:
            definition = waiting.pop()
            if definition not in seen:
                seen.add(definition)
                waiting += self.used_by(definition.module, self.nodes[definition])
        return seen

    def documented(self, text: str) -> set[Definition]:
        """Definitions that the docs call as `module.name`."""
        calls = {(m[1], m[2]) for m in re.finditer(r"\b(\w+)\.(?=(\w+))", text)}
        return {d for d in self.nodes if (d.module.rpartition(".")[2], d.name) in calls}


def names_of(node: ast.stmt) -> list[str]:
    """The names that a statement of a module defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []
