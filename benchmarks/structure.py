"""Count the forms of the house, and the files that a command enters on its way.

    python benchmarks/structure.py                       # forms
    python benchmarks/structure.py analyze FILE [...]    # files entered before the first lift

Forms: modules, code lines, docstring lines, records and their fields, relations that engines make,
SQL statements in Python. A file counts as entered when a call first enters one of its functions;
importing it does not count.
"""

import ast
import inspect
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "abeval"
RECORDS = ("dataclass", "NamedTuple", "BaseModel", "Section")
LIFTS = {"fieller", "fieller_adjusted", "delta", "delta_adjusted", "log_delta", "lift"}
"""Functions of `abeval/stats/` that give a first lift."""


def strings(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of a module that are no docstrings; an f-string is one."""
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    inside = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    }
    for node in ast.walk(tree):
        if id(node) in docs or id(node) in inside:
            continue
        if isinstance(node, ast.JoinedStr):
            yield ast.unparse(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def forms() -> dict[str, int]:
    """Return the counts of the package."""
    counts = dict.fromkeys(
        ("modules", "lines", "code", "docstrings", "records", "fields", "functions", "sql"), 0
    )
    for file in sorted(PACKAGE.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text)
        prose: set[int] = set()
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                counts["functions"] += isinstance(node, ast.FunctionDef)
                if ast.get_docstring(node, clean=False) is not None:
                    prose |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
            if isinstance(node, ast.ClassDef):
                marks = [ast.unparse(x) for x in (*node.decorator_list, *node.bases)]
                # Classes of results are frozen by their base.
                is_result = file.parent.name == "results" and bool(marks)
                if is_result or any(name in mark for mark in marks for name in RECORDS):
                    counts["records"] += 1
                    counts["fields"] += sum(isinstance(x, ast.AnnAssign) for x in node.body)
        quiet = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
        code = {
            line
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type not in quiet | {tokenize.ENDMARKER}
            for line in range(token.start[0], token.end[0] + 1)
        } - prose
        counts["modules"] += 1
        counts["lines"] += len(text.splitlines())
        counts["code"] += len(code)
        counts["docstrings"] += len(prose)
        counts["sql"] += sum(bool(re.search(r"\bselect\b.*", s)) for s in strings(tree))
    counts["queries"] = len(list((ROOT / "queries").rglob("*.sql")))
    return counts


def entered(words: list[str]) -> dict[str, int]:
    """Run a command; return how many files it had entered before its first lift and its JSON."""
    from abeval.cli.main import main

    files: dict[str, int] = {}
    marks: dict[str, int] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event != "call" or not file.startswith(str(PACKAGE)):
            return
        # Bodies of modules and of classes run while they are imported.
        if not frame.f_code.co_flags & inspect.CO_NEWLOCALS:
            return
        name = frame.f_code.co_name
        if name.startswith("<") and name != "<lambda>":
            return
        files.setdefault(file, len(files))
        if name in LIFTS and "/stats/" in file:
            marks.setdefault("first lift", len(files))
        if name == "to_json":
            marks.setdefault("JSON", len(files))

    with TemporaryDirectory() as folder:
        sys.argv = ["abeval", *words, "--json", str(Path(folder) / "result.json")]
        sys.setprofile(note)
        try:
            with redirect_stdout(io.StringIO()):
                main()
        except SystemExit as stop:
            if stop.code:
                raise
        finally:
            sys.setprofile(None)
    return {**marks, "end": len(files)}


if __name__ == "__main__":
    counts = entered(sys.argv[1:]) if len(sys.argv) > 1 else forms()
    for what, count in counts.items():
        sys.stdout.write(f"{what:12} {count:,}\n")
