"""What README.md and docs/ name is there: commands, flags, Python names, files, modules."""

import ast
import re
import shlex
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path

import pytest
from typer.main import get_group

import abeval
from abeval.api import LoadedExperiment
from abeval.cli.main import app
from abeval.experiment.sections import TrustOptions
from abeval.inference.trust.checks import CHECKS, ENTRY_POINTS
from abeval.logs.run import Inputs
from abeval.metrics.builtin import load_builtin_metrics
from abeval.offline.replay import ReplayOptions
from abeval.report.parts import load_parts
from benchmarks.__main__ import build_parser
from benchmarks.results.__main__ import commands
from benchmarks.runner import load_tables

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
    known = {"--version", "--install-completion"}.union(*COMMANDS.values())
    if "python -m benchmarks " in paragraph:
        for file in ("runner.py", "timing.py"):
            text = (ROOT / "benchmarks" / file).read_text(encoding="utf-8")
            known |= set(re.findall(r"add_argument\(\s*\"(--[a-z-]+)", text))
    for name in re.findall(r"python -m ((?:abeval|benchmarks)\.[.\w]+)", paragraph):
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
    names = {*re.findall(r"\babeval(?:\.\w+)+", " ".join(code_of(DOCS[page])))}
    for name in names - {ENTRY_POINTS}:
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
            own |= {*ReplayOptions.__annotations__} if name == "replay" else set()
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
    for link, place in re.findall(r"\]\(([^)#:\s]*)(?:#([^)]*))?\)", DOCS[page]):
        target = ((ROOT / page).parent / link).resolve() if link else ROOT / page
        assert target.exists(), link
        if place:
            assert place in headings(target.read_text(encoding="utf-8")), f"{link}#{place}"


def headings(text: str) -> set[str]:
    """What a link can go to on a page: its headings as GitHub names them, and named places."""
    bare = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", head.lower()) for head in re.findall(r"^#+ (.*)$", bare, re.M))
    return {head.strip().replace(" ", "-") for head in words} | {
        *re.findall(r"<a id=\"([\w-]+)\">", text)
    }


def test_every_page_that_the_package_names_is_there() -> None:
    """Error messages, docstrings and pages of a report send their reader to docs/."""
    named: set[str] = set()
    for folder in ("abeval", "benchmarks", "queries"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in {".py", ".toml", ".sql", ".html", ".js"}:
                named |= set(re.findall(r"docs/[\w-]+\.md", file.read_text(encoding="utf-8")))
    assert "docs/data.md" in named
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_the_readme_and_the_docs_can_be_read() -> None:
    words = {page: len(text.split()) for page, text in DOCS.items() if "docs/" in page}
    assert len(DOCS["README.md"].split()) <= 900
    assert len(DOCS["README.md"].split()) + sum(words.values()) <= 26_000, words


RESULTS = sorted((ROOT / "benchmarks/results").glob("*.md"))


@pytest.mark.parametrize("page", RESULTS, ids=lambda path: path.stem)
def test_the_commands_of_a_page_of_results_can_run(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for command in commands(text):
        module, *words = shlex.split(command)
        if module == "benchmarks":
            options = build_parser().parse_args(words)
            assert options.table is None or options.table in load_tables(options.name), command
        else:
            assert {word for word in words if word[:2] == "--"} <= flags_of(f"python -m {module}")


def test_each_study_of_the_calibration_page_has_a_page_of_results() -> None:
    rows = re.findall(r"^\| \**`(\w+)`", DOCS["docs/calibration.md"], re.MULTILINE)
    assert len(rows) > 10
    assert sorted(set(rows) - {path.stem for path in RESULTS}) == []


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
    for _, modules, *_ in table("docs/methods.md", "| question | module |"):
        for name in re.findall(r"`(\w+)`", modules):
            import_module(f"abeval.stats.{name}")
    for _, functions, *_ in table("docs/methods.md", "| entry | function |"):
        module = ""
        for name in re.findall(r"`([\w.]+)`", functions):
            module = name.rpartition(".")[0] or module
            assert hasattr(import_module(f"abeval.stats.{module}"), name.rpartition(".")[2]), name


def table(page: str, head: str) -> list[list[str]]:
    """The cells of a table's rows, by how its head begins."""
    rows = DOCS[page][DOCS[page].index(head) :].split("\n\n")[0].splitlines()[2:]
    return [row.strip("| ").split(" | ") for row in rows]


CHECK_NAMES = {check.check or check.name for check in CHECKS}


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("docs/report.md", [part.id for part in load_parts()]),
        ("docs/experiment-file.md", [*TrustOptions.model_fields]),
        ("docs/methods.md", [*load_builtin_metrics(30, 30)]),
        ("docs/trust.md", [re.sub("^LOG_|^clicks_|:SEGMENT$", "", name) for name in CHECK_NAMES]),
    ],
)
def test_a_page_names_all_of_its_kind(page: str, names: list[str]) -> None:
    code = " ".join(code_of(DOCS[page]))
    assert names
    # A name may follow that of its log, as `clicks_set_aside` or `_set_aside`.
    assert not [name for name in names if not re.search(rf"(?:\b|_){name}\b", code)]
