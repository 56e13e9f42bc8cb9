"""The plan of the house: which package may import which, and that no import runs in a circle."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import abeval
from abeval.agreement.causes import CAUSES
from abeval.results.record import Record, Tabled
from abeval.views import VIEWS
from tests.reachability import Package, tree_of

ROOT = Path(__file__).parents[1]

ORDER = (
    ("__main__",),
    ("cli",),
    ("server",),
    ("api",),
    ("table",),
    ("study", "brief", "slack"),
    ("report",),
    ("agreement",),
    ("time", "interleaving", "history"),
    ("inference", "offline", "off_policy", "audit", "drafts"),
    ("aggregates",),
    ("logs",),
    ("simulate",),
    ("engines",),
    ("experiment",),
    ("metrics",),
    ("results", "stats"),
    ("assignment", "files", "progress", "scratch", "version"),
    ("bounds", "calls", "plugins"),
    ("errors", "locks", "packaged", "signals", "views"),
)
"""From the top floor to the ground: an import goes to a lower floor."""

OFFLINE = (
    ("replay", "evaluate"),
    ("estimates",),
    ("groups",),
    ("inference",),
    ("sums",),
    ("impressions",),
    ("inputs",),
    ("candidates",),
    ("metrics",),
    ("expressions",),
)

SHARED = {
    *(
        "assignment",
        "bounds",
        "calls",
        "errors",
        "files",
        "locks",
        "packaged",
        "plugins",
        "progress",
        "scratch",
        "signals",
        "views",
    ),
}


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_of(path): path for path in (ROOT / "abeval").rglob("*.py")}


def imported(path: Path) -> Iterator[str]:
    """Every module of abeval that a file imports: at the top, in a function, for types alone."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in FILES)
        elif isinstance(node, ast.ImportFrom) and node.module in FILES:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in FILES else node.module for name in names)


@cache
def arrows() -> list[tuple[str, str]]:
    """Module and what it imports. Not at the top: every worker imports every file of tests."""
    return sorted(
        {
            (module, target)
            for module, path in FILES.items()
            for target in imported(path)
            if module != target and module != "abeval"
        }
    )


def floors(order: tuple[tuple[str, ...], ...]) -> dict[str, int]:
    return {name: floor for floor, names in enumerate(order) for name in names}


def running_back(
    order: tuple[tuple[str, ...], ...], prefix: tuple[str, ...] = ("abeval",)
) -> list[str]:
    """Arrows between rooms of a package that do not go to a lower floor."""
    floor, depth = floors(order), len(prefix)
    wrong = []
    for module, target in arrows():
        ends = [name.split(".") for name in (module, target)]
        if any(tuple(end[:depth]) != prefix or len(end) == depth for end in ends):
            continue
        above, below = (end[depth] for end in ends)
        if above != below and floor[above] >= floor[below]:
            wrong.append(f"{module} -> {target}")
    return wrong


def test_every_room_has_a_floor():
    top = {name.split(".")[1] for name in FILES if "." in name}
    assert set(floors(ORDER)) == top


def test_imports_run_to_lower_floors_only():
    assert running_back(ORDER) == []


def test_offline_runs_from_replays_down_to_metrics():
    rooms = {name.split(".")[2] for name in FILES if name.startswith("abeval.offline.")}
    assert set(floors(OFFLINE)) == rooms
    assert running_back(OFFLINE, ("abeval", "offline")) == []


@pytest.mark.parametrize("room", ["stats", "results"])
def test_leaves_import_nothing_but_the_small_shared_modules(room):
    wrong = [
        f"{module} -> {target}"
        for module, target in arrows()
        if module.startswith(f"abeval.{room}.")
        and target.split(".")[1:2] != [room]
        and target.split(".")[1] not in SHARED
    ]
    assert wrong == []


def test_the_report_reads_results_and_the_catalogue_of_offline_metrics():
    wrong = [
        f"{module} -> {target}"
        for module, target in arrows()
        if module.startswith("abeval.report")
        and target.split(".")[1] not in {"report", "results", *SHARED}
        and target != "abeval.offline.metrics"
    ]
    assert wrong == []


def circles() -> list[list[str]]:
    """Strongly connected modules, largest first, found by reachability both ways."""
    below: dict[str, set[str]] = {name: set() for name in FILES}
    for module, target in arrows():
        below[module].add(target)

    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        stack = [start]
        while stack:
            for target in below[stack.pop()] - seen:
                seen.add(target)
                stack.append(target)
        return seen

    reached = {name: reach(name) for name in FILES}
    groups = {
        frozenset(other for other in reached[name] if name in reached[other])
        for name in FILES
        if name in reached[name]
    }
    return sorted(sorted(group) for group in groups)


def test_no_import_runs_in_a_circle():
    assert circles() == []


def test_contributing_says_who_uses_each_room():
    rows = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()
    listed = 0
    for row in rows:
        rooms = set(re.findall(r"`abeval/(\w+)(?:/`|\.py`)", row.split(" | ")[0]))
        if row.startswith("| `abeval/") and rooms and row.count(" | ") == 3:
            users = {
                module.split(".")[1]
                for module, target in arrows()
                if target.split(".")[1] in rooms
                and module.split(".")[1] not in {*rooms, "__main__"}
            }
            said = row.rsplit(" | ", 1)[1].removesuffix(" |")
            assert said == (", ".join(sorted(users)) or "who uses abeval"), row
            listed += 1
    assert listed > 20


BY_USE = {"calibration", "cli", "malformed"}
"""Folders of tests that are named by what a user does, or by a calibration."""


def test_a_file_of_tests_is_named_after_its_module():
    files = [path for path in (ROOT / "tests").glob("*/test_*.py") if path.parts[-2] not in BY_USE]
    assert len(files) > 200
    for path in files:
        modules = [file.stem for file in (ROOT / "abeval" / path.parent.name).iterdir()]
        topic = f"{path.stem.removeprefix('test_')}_"
        assert any(topic.startswith(f"{module}_") for module in modules), path


def made_relations() -> dict[str, list[str]]:
    """Each SQL relation that is named in the code, and the calls that create it."""
    makers: dict[str, list[str]] = {}
    for module, path in FILES.items():
        for node in ast.walk(tree_of(path)):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="table" | "view" | "add_frame"),
                    args=[ast.Constant(value=str(name)), *_],
                ):
                    makers.setdefault(name, []).append(f"{module}:{node.lineno}")
    return makers


def test_every_relation_has_one_maker():
    makers = made_relations()
    assert len(makers) > 50
    assert {name: calls for name, calls in makers.items() if len(calls) > 1} == {}


def is_registered(node: ast.AST) -> bool:
    """Whether a definition is a case of a function that dispatches, or a part of the page."""
    marks = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return any(
        ast.unparse(mark).endswith(".register") or ast.unparse(mark).startswith("page_part(")
        for mark in marks
    )


def list_tables() -> Iterator[str]:
    """Functions that tabulate results, which each result names."""
    for module in ("agreement", "history", "interleaving", "off_policy", "replay", "study"):
        import_module(f"abeval.results.{module}")
    classes = (*Record.__subclasses__(), *Tabled.__subclasses__())
    return (name for kind in classes if (name := getattr(kind, "TABLES", "")))


def test_every_definition_is_reached_by_the_command_line_the_api_or_the_docs():
    package = Package(FILES)
    texts = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("notebooks/*.ipynb")]
    docs = "\n".join(path.read_text(encoding="utf-8") for path in texts)
    entries = ("abeval", "abeval.__main__", "abeval.api")
    roots = package.documented(docs)
    roots |= {d for d in package.nodes if d.module in entries or d.module.startswith("abeval.cli")}
    roots |= {found for name in abeval.__all__ if (found := package.find("abeval", name))}
    # A cause names its function in `causes.toml`.
    checks = [cause.function for cause in CAUSES]
    roots |= {d for f in checks if (d := package.find(f.__module__, f.__name__))}
    names = (*VIEWS.values(), *(f"abeval.report.{name}" for name in list_tables()))
    views = (name.split(":") for name in names)
    roots |= {d for d, node in package.nodes.items() if is_registered(node)}
    roots |= {found for module, name in views if (found := package.find(module, name))}
    known = {"__all__", "__getattr__", "__version__"}
    unreached = set(package.nodes) - package.reached(roots)
    assert sorted(d for d in unreached if d.name not in known) == []


def test_the_first_line_of_a_docstring_is_short():
    long = []
    for file in sorted((ROOT / "abeval").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            first = (
                (ast.get_docstring(node) or "").partition("\n")[0]
                if isinstance(node, kinds)
                else ""
            )
            if len(first) >= 80:
                long.append(f"{file.relative_to(ROOT)}: {first}")
    assert long == []
