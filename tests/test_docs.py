"""What README.md and docs/ name is there: commands, flags, Python names, files, modules."""

import ast
import re
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path

import pytest
from typer.main import get_group

import abeval
from abeval.api import LoadedExperiment
from abeval.cli.main import app
from abeval.experiment.sections import TrustOptions
from abeval.inference.trust import checks
from abeval.logs.run import Inputs
from abeval.metrics.builtin import builtin_metrics
from abeval.report.page import PARTS

ROOT = Path(__file__).parents[1]
DOCS = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (*ROOT.glob("*.md"), ROOT / "queries/README.md", *(ROOT / "docs").glob("*.md"))
}
COMMANDS = {
    name: {
        flag
        # Of a group, such as `history`, the flags of all its commands.
        for one in (command, *getattr(command, "commands", {}).values())
        for parameter in one.params
        for flag in parameter.opts
    }
    for name, command in get_group(app).commands.items()
}

COMMAND = r"(?:^|`|/) *abeval (?P<command>[a-z][a-z-]*)\b"
FLAG = r"(?<![\w-])(?P<flag>--[a-z][a-z-]*)"

each_page = pytest.mark.parametrize("page", sorted(DOCS))


def code_of(text: str) -> list[str]:
    """Every piece of code of a page: fenced, indented, and in a line."""
    fenced = r"```\w*\n(.*?)```"
    lines = re.sub(fenced, "", text, flags=re.DOTALL)
    return [
        *re.findall(fenced, text, re.DOTALL),
        *re.findall(r"^ {4}(\S.*)$", text, re.MULTILINE),
        *re.findall(r"`([^`\n]+)`", lines),
    ]


def flags_of(paragraph: str) -> set[str]:
    """Every flag that a paragraph may name: of any command, and of modules that it runs."""
    known = {"--version"}.union(*COMMANDS.values())
    for name in re.findall(r"python -m ((?:abeval|benchmarks)[.\w]+)", paragraph):
        file = Path(str(import_module(name).__file__))
        main = file.with_name("__main__.py") if file.name == "__init__.py" else file
        known |= set(re.findall(r"add_argument\(\s*\"(--[a-z-]+)", main.read_text()))
    return known


@each_page
def test_every_flag_is_one_of_the_command_it_is_named_for(page: str) -> None:
    for paragraph in DOCS[page].split("\n\n"):
        every = flags_of(paragraph)
        for line in paragraph.splitlines():
            flags = every
            for found in re.finditer(f"{COMMAND}|{FLAG}", line):
                if found["flag"] is None:
                    assert found["command"] in COMMANDS, line
                    flags = COMMANDS[found["command"]]
                else:
                    assert found["flag"] in flags, line


def test_the_readme_lists_every_command() -> None:
    rows = re.findall(r"^\| (`abeval .*?) \|", DOCS["README.md"], re.MULTILINE)
    listed = re.findall(r"`(?:abeval )?(?:tools )?([a-z-]+)", " ".join(rows))
    tools = getattr(get_group(app).commands["tools"], "commands")  # noqa: B009
    assert sorted(listed) == sorted({*COMMANDS, *tools} - {"tools"})


@each_page
def test_every_dotted_name_is_there(page: str) -> None:
    for name in re.findall(r"\babeval(?:\.\w+)+", " ".join(code_of(DOCS[page]))):
        found: object = abeval
        for i, part in enumerate(name.split(".")[1:], start=2):
            if not hasattr(found, part):
                import_module(".".join(name.split(".")[:i]))
            assert hasattr(found, part), name
            found = getattr(found, part)


@each_page
def test_methods_of_an_experiment_take_what_the_page_gives_them(page: str) -> None:
    for call in calls_of(page):
        name = ast.unparse(call.func).split(".")[-1]
        method = getattr(LoadedExperiment, name, None)
        if ast.unparse(call.func) == "abeval.analyze":
            assert {str(keyword.arg) for keyword in call.keywords} <= {
                *abeval.analyze.__annotations__
            }
        elif method is not None:
            own = {*method.__annotations__, *Inputs.__annotations__}
            assert {str(keyword.arg) for keyword in call.keywords} <= own, ast.unparse(call)
        if re.match(r"abeval\.load\([^()]*\)\.\w+$", ast.unparse(call.func)):
            assert method is not None, ast.unparse(call)


def calls_of(page: str) -> list[ast.Call]:
    """The calls of whatever code of a page is Python."""
    calls = []
    for code in code_of(DOCS[page]):
        try:
            tree = ast.parse(code)
        except SyntaxError:
            continue
        calls += [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return calls


@each_page
def test_every_file_and_link_is_there(page: str) -> None:
    named = re.findall(r"`((?:abeval|tests|docs|queries|benchmarks)/[\w/.]*)`", DOCS[page])
    assert [name for name in named if "NAME" not in name and not (ROOT / name).exists()] == []
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", DOCS[page])
    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []


def test_the_table_of_modules_has_each_module_once() -> None:
    cells = [row[0] for row in table("docs/design.md", "| room | owns |")]
    named = [name.removeprefix("abeval/") for name in re.findall(r"`([^`]+)`", " ".join(cells))]
    house = {path.name for path in (ROOT / "abeval").glob("*.py")} - {"__init__.py"}
    house |= {f"{path.parent.name}/" for path in (ROOT / "abeval").glob("*/__init__.py")}
    house.add("queries/")
    found = [(name, entry) for entry in named for name in house if fnmatch(name, entry)]
    assert sorted(name for name, _ in found) == sorted(house)
    assert {entry for _, entry in found} == set(named)


def test_the_tables_of_methods_name_what_stats_has() -> None:
    for _, modules, *_ in table("docs/statistics.md", "| question | module |"):
        for name in re.findall(r"`(\w+)`", modules):
            import_module(f"abeval.stats.{name}")
    for _, functions, *_ in table("docs/statistics.md", "| entry | function |"):
        module = ""
        for name in re.findall(r"`([\w.]+)`", functions):
            module = name.rpartition(".")[0] or module
            assert hasattr(import_module(f"abeval.stats.{module}"), name.rpartition(".")[2]), name


def table(page: str, head: str) -> list[list[str]]:
    """The cells of a table's rows, by how its head begins."""
    rows = DOCS[page][DOCS[page].index(head) :].split("\n\n")[0].splitlines()[2:]
    return [row.strip("| ").split(" | ") for row in rows]


CHECKS = {
    row.name
    for rows in vars(checks).values()
    if isinstance(rows, tuple)
    for row in rows
    if isinstance(row, checks.Row)
}
"""Names of the rows of all tables of `checks.py`."""


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("docs/report.md", [part.id for part in PARTS]),
        ("docs/experiment-file.md", [*TrustOptions.model_fields]),
        ("docs/metrics.md", [*builtin_metrics(30, 30)]),
        ("docs/trust.md", [re.sub("^LOG_|^clicks_|:SEGMENT$", "", name) for name in CHECKS]),
    ],
)
def test_a_page_names_all_of_its_kind(page: str, names: list[str]) -> None:
    code = " ".join(code_of(DOCS[page]))
    assert names
    # A name may follow that of its log, as `clicks_late` or `_late`.
    assert not [name for name in names if not re.search(rf"(?:\b|_){name}\b", code)]
