"""Small changes of code and of queries: one operator, number, bound or aggregate each."""

import ast
import random
import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
AREAS = (
    ("abeval/stats/*.py",),
    ("abeval/logs/*.py",),
    ("queries/*/*.sql",),
    ("abeval/assignment/*.py",),
    ("abeval/inference/families.py", "abeval/inference/verdict.py"),
)
"""Each gives as many changes as the others."""

NAMED = (
    ("abeval/assignment/plan.py", "], place)]", "], place - 1)]", "tests/assignment/test_split.py"),
    (
        "abeval/stats/decisions.py",
        "p_value < alpha",
        "p_value <= alpha",
        "tests/stats/test_decisions.py",
    ),
    (
        "abeval/stats/decisions.py",
        "not low <= 0 <= high",
        "not low < 0 < high",
        "tests/stats/test_decisions.py",
    ),
    (
        "abeval/stats/decisions.py",
        "gain.low > -margin",
        "gain.low >= -margin",
        "tests/stats/test_decisions.py",
    ),
    (
        "abeval/inference/families.py",
        "low < interval.low and interval.high < high",
        "low < interval.low or interval.high < high",
        "tests/inference/test_status.py",
    ),
    (
        "abeval/inference/verdict.py",
        "harm[0] > metric.margin",
        "harm[0] >= metric.margin",
        "tests/inference/test_verdict.py",
    ),
    ("abeval/stats/means.py", "1e-13", "1e-6", "tests/stats/test_ratios.py"),
    (
        "abeval/logs/views.py",
        "< timestamp '9999-01-01'",
        "< timestamp '9998-12-31'",
        "tests/logs/test_views.py",
    ),
)
"""File, what is there, what is put in its place, and the tests that must notice."""


class Mutant(NamedTuple):
    """One change.

    Attributes:
        file: Path from the root.
        line: Where.
        what: The change in words.
        text: The whole file after it.
    """

    file: str
    line: int
    what: str
    text: str


COMPARED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
SWAPPED = {"min": "max", "max": "min", "left": "right", "right": "left", "any": "all", "all": "any"}


def changed(node: ast.AST) -> Iterator[ast.AST]:
    """Every change of one node."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARED:
            yield ast.Compare(node.left, [COMPARED[type(op)]()], node.comparators)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in COMPUTED:
            if not any(isinstance(side, ast.JoinedStr) for side in (left, right)):
                yield ast.BinOp(left, COMPUTED[type(op)](), right)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            yield operand
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int()):
            yield ast.Constant(node.value + 1)
        case ast.Constant(value=float()):
            yield ast.Constant(node.value * 10 or 1.0)
        case ast.Constant(value=str(name)) if name in SWAPPED:
            yield ast.Constant(SWAPPED[name])
        case ast.Call(func=ast.Name(id=name)) if name in SWAPPED:
            yield ast.Call(ast.Name(SWAPPED[name]), node.args, node.keywords)


def places(tree: ast.AST, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The ways from the root to every node that computes something: no types, texts, errors."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "exc"):
            continue
        for i, child in enumerate(value) if isinstance(value, list) else ((None, value),):
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr | ast.Assert):
                here = (*path, name) if i is None else (*path, name, i)
                yield here
                yield from places(child, here)


def follow(tree: object, path: Sequence[str | int]) -> object:
    """What is at the end of a way of `places`."""
    for step in path:
        tree = tree[step] if isinstance(step, int) else getattr(tree, step)  # type: ignore[index]
    return tree


def of_python(file: str) -> Iterator[Mutant]:
    """Every change of one node of a module."""
    tree = ast.parse((ROOT / file).read_text())
    for path in places(tree):
        node = follow(tree, path)
        for new in changed(node) if isinstance(node, ast.AST) else ():
            whole = deepcopy(tree)
            holder, last = follow(whole, path[:-1]), path[-1]
            if isinstance(last, int):
                holder[last] = new  # type: ignore[index]
            else:
                setattr(holder, last, new)
            what = f"{ast.unparse(node)}  ->  {ast.unparse(new)}"
            text = ast.unparse(ast.fix_missing_locations(whole))
            yield Mutant(file, getattr(node, "lineno", 0), what, text)


WORDS = (
    (r" < ", " <= "),
    (r" <= ", " < "),
    (r" > ", " >= "),
    (r" >= ", " > "),
    (r" <> ", " = "),
    (r" = ", " <> "),
    (r"\bmin\(", "max("),
    (r"\bmax\(", "min("),
    (r"\bsum\(", "max("),
    (r"\bcount\(distinct ", "count("),
    (r" and ", " or "),
    (r" \+ ", " - "),
    (r" - ", " + "),
    (r"\bleft join\b", "join"),
    (r"\bis not null\b", "is null"),
    (r"\bis null\b", "is not null"),
    (r"\bdesc\b", "asc"),
    (r"(?<![\w.'\[])0(?![\w.')])", "1"),
    (r"(?<![\w.'])1(?![\w.')])", "2"),
)


def of_sql(file: str) -> Iterator[Mutant]:
    """Every change of one word of a query."""
    lines = (ROOT / file).read_text().splitlines()
    for i, line in enumerate(lines):
        if line.lstrip().startswith("--"):
            continue
        for old, new in WORDS:
            for match in re.finditer(old, line):
                other = line[: match.start()] + new + line[match.end() :]
                text = "\n".join([*lines[:i], other, *lines[i + 1 :]]) + "\n"
                yield Mutant(file, i + 1, f"{line.strip()}  ->  {other.strip()}", text)


def every_mutant(globs: Sequence[str]) -> list[Mutant]:
    """Every change of some files."""
    files = [str(path.relative_to(ROOT)) for name in globs for path in sorted(ROOT.glob(name))]
    return [m for file in files for m in (of_sql if file.endswith(".sql") else of_python)(file)]


def draw(count: int, seed: int, areas: Sequence[Sequence[str]]) -> list[Mutant]:
    """Changes drawn at random, from one area after the other."""
    rng = random.Random(seed)  # noqa: S311 (no secret)
    known = [every_mutant(area) for area in areas]
    shares = [count // len(known) + (i < count % len(known)) for i in range(len(known))]
    return [
        mutant
        for mutants, share in zip(known, shares, strict=True)
        for mutant in sorted(rng.sample(mutants, min(share, len(mutants))))
    ]


def named() -> Iterator[tuple[Mutant, list[str]]]:
    """The changes of `NAMED`, each with its file of tests."""
    for file, old, new, tests in NAMED:
        text = (ROOT / file).read_text()
        if text.count(old) != 1:
            raise ValueError(f"{old!r} is in {file} {text.count(old)} times")
        line = text[: text.index(old)].count("\n") + 1
        yield Mutant(file, line, f"{old}  ->  {new}", text.replace(old, new)), [tests]
