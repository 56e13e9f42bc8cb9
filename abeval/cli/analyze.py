"""Run `abeval analyze` and `abeval report`."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, cast

import typer

from abeval.cli import options
from abeval.cli.options import parse_read_options, parse_weights
from abeval.errors import ExperimentError
from abeval.files import write_text
from abeval.progress import show_progress
from abeval.views import view

if TYPE_CHECKING:
    from abeval.api import LoadedExperiment
    from abeval.results.analysis import CheckResult, Pairwise, Result
    from abeval.results.interleaving import InterleavingResult
    from abeval.results.record import PageRecord
    from abeval.results.study import Study
    from abeval.results.trust import Verdict


_column = partial(options.flag, rich_help_panel="Table of one row a unit", metavar="COLUMN")
_COLUMNS = (
    _column("unit", str, "The unit; without it each row is one."),
    _column("variant", str, "The variant."),
    _column(
        "metric",
        list[str],
        "A column, or name=clicks/views for a ratio; repeat for more. Default: all numbers.",
        to="metrics",
        metavar="METRIC",
    ),
    _column(
        "covariate",
        list[str],
        "Measured before the experiment, for CUPED; repeat for more.",
        to="covariates",
    ),
    _column("segment", list[str], "Effects by its values too; repeat for more.", to="segments"),
    _column("read", list[str], options.READ, read=parse_read_options, metavar="KEY=VALUE"),
    _column(
        "missing",
        Literal["zero", "drop"],
        "Units without a value count as 0, or do not count. Default: they are refused.",
        metavar="zero|drop",
    ),
    _column("control", str, "Default: the one called so, or the first by name.", metavar="VARIANT"),
    _column(
        "weights",
        str,
        "Planned shares of the variants, such as a=0.9,b=0.1. Default: equal ones.",
        read=parse_weights,
        metavar="A=SHARE,…",
    ),
)


def _load(file: Path | None, flags: dict[str, Any]) -> "LoadedExperiment":
    from abeval.api import load
    from abeval.engines.sources import is_table

    used = [(flag, value) for flag in _COLUMNS if (value := flags.pop(flag.parameter.name))]
    columns: dict[str, Any] = {flag.keyword: flag.read(value) for flag, value in used}
    names = [flag.parameter.name for flag, _ in used]
    if file is None:
        loaded = _load_sums_table(flags["sums"], columns, names)
    # A table is told by `--variant`, or by the name of its file.
    elif "variant" in columns or is_table(file):
        from abeval.api.entry import load_table
        from abeval.table.columns import TableOptions

        loaded = load_table(file, TableOptions(**columns))
    elif names:
        raise ExperimentError(f"--{names[0]} is for a table", "name its --variant too")
    else:
        return load(file)
    if "control" not in columns and not loaded.experiment.questions:
        from abeval.drafts.variants import names_control

        # Only tables: an experiment file names its control.
        control = loaded.experiment.control
        if not names_control(control):
            typer.echo(
                f"control is {control}, the first by name; --control names another", err=True
            )
    return loaded


def _load_sums_table(
    sums: Path | None, columns: dict[str, Any], names: list[str]
) -> "LoadedExperiment":
    """Load the experiment of a table of sums."""
    from abeval.api.entry import load_sums
    from abeval.table.columns import TableOptions

    if sums is None:
        raise ExperimentError("nothing to analyse", "name an experiment file, a table, or --sums")
    if misplaced := [name for name in names if name not in ("control", "unit", "weights")]:
        raise ExperimentError(f"--{misplaced[0]} is for a table", "sums name their own columns")
    # Sums have no column of units: the option names what was counted.
    unit = columns.pop("unit", "")
    return load_sums(sums, TableOptions(**columns), unit)


def _check_report(file: Path) -> None:
    # JSON and Markdown replace any file, as --json does; a page replaces only a page.
    if file.suffix.lower() not in (".json", ".md"):
        options.check_page(file)


_EXIT_CODES = {"ship": 0, "do_not_trust": 3, "do_not_ship": 4, "keep_running": 5, "draft": 6}

_written = partial(options.flag, metavar="FILE", parser=options.parse_output_path)
_read = partial(options.flag, metavar="FILE", marks=[options.Reads()])
_REPORT = "Write all that is known: a page, or by its name .md or .json; repeat for more."
_PAIRS = "Only compare every pair of variants on a metric, p adjusted over the pairs."
_CONNECT = "Sum in a warehouse that has the logs' tables: postgresql://…, http://…, chdb:…."
_BRIEF = "Print at most 4 kB of JSON for programs: decision, why, next step."
_FORMAT = "text, or md for a chat: at most 20 lines of text."
_GATE = "Exit with 3, 4, 5 or 6 unless the verdict is to ship, or checks pass."
_OPTIONS = (
    options.JSON,
    _written("report", list[Path], _REPORT, marks=[options.Writes(check=_check_report)]),
    _written("csv", Path, "Write the scorecard as CSV.", marks=[options.Writes()]),
    options.flag("checks", bool, "Only check the split and the logs.", False),
    options.flag("pairs", str, _PAIRS, metavar="METRIC"),
    options.ALL,
    options.flag("brief", bool, _BRIEF, False),
    options.flag("format", Literal["text", "md"], _FORMAT, "text"),
    options.flag("gate", bool, _GATE, False),
    options.flag("profile", bool, "Print the time of each step, on stderr.", False),
    _read("sums", Path, "Judge sums by metric, variant and day instead of logs."),
    _read("history", Path, "Past experiments, which say what to expect of a lift."),
    options.flag("connect", str, _CONNECT, metavar="URI"),
)


class _Request(NamedTuple):
    """What the options ask for: which result, of what, and what is written and printed of it."""

    json: Path | None
    report: list[Path] | None
    csv: Path | None
    checks: bool
    pairs: str | None
    whole: bool
    brief: bool
    format: str
    gate: bool
    profile: bool
    sums: Path | None
    history: Path | None
    connect: str | None

    def refuse(self, what: str, *names: str) -> None:
        """Refuse options that have no meaning for the requested result."""
        for name in names:
            if getattr(self, name) not in (None, False, "text"):
                raise ExperimentError(f"{what} has no --{name}", "leave it out")

    def exit_with_verdict(self, verdicts: "Sequence[Verdict]") -> None:
        """Exit with the code of the worst decision, if `--gate` is given."""
        if self.gate:
            exit_codes = (_EXIT_CODES[verdict.decision] for verdict in verdicts)
            raise typer.Exit(max(exit_codes, default=0))


@partial(
    options.add_engine_flags,
    load=_load,
    flags=(*_OPTIONS, *_COLUMNS),
    text="The experiment file (TOML), a table with --variant, or a table of counts.",
)
def analyze(loaded: "LoadedExperiment", **values: Any) -> None:  # noqa: ANN401 (typer's values)
    """Analyse an experiment: verdict, next step, goals and guardrails, trust.

    The report of an experiment file has all that its logs allow: time, A/A replays, models.

    Examples:
    abeval analyze experiment.toml --report report.html
    abeval analyze users.csv --variant group --metric revenue
    """
    request = _Request(**values)
    of_variants = ("csv", "sums", "connect", "brief", "history")
    of_verdicts = (*of_variants, "report", "profile", "format")
    if request.pairs is not None:
        request.refuse("--pairs", *of_verdicts, "checks", "gate")
        _check_or_compare(loaded, request)
    elif request.checks:
        request.refuse("--checks", *of_verdicts)
        _check_or_compare(loaded, request)
    elif loaded.experiment.interleaving is not None:
        request.refuse("an interleaved list", *of_variants)
        _judge_rankers(loaded, request)
    elif request.sums is not None and request.connect is not None:
        raise ExperimentError("--sums has the sums that --connect would ask for", "give one")
    elif request.brief and request.format != "text":
        raise ExperimentError("--brief and --format both say what is printed", "give one")
    else:
        _judge_variants(loaded, request)


def _check_or_compare(loaded: "LoadedExperiment", request: _Request) -> None:
    """Check the split and the logs, or compare every pair of variants on a metric."""
    outcome: CheckResult | Pairwise
    with show_progress("check") as step:
        if request.pairs is None:
            outcome = loaded.check(step=step)
        else:
            outcome = loaded.compare(request.pairs, step=step)
    options.show(outcome, request.json, show_all=request.whole)
    if request.gate and outcome.questions:
        raise typer.Exit(_EXIT_CODES["draft"])
    if request.gate and any(check.status == "fail" for check in outcome.trust):
        raise typer.Exit(_EXIT_CODES["do_not_trust"])


def _judge_rankers(loaded: "LoadedExperiment", request: _Request) -> None:
    """Judge which ranker users of interleaved lists prefer."""
    with show_progress(profile=request.profile) as step:
        lists = loaded.preferences(step=step)
    for file in request.report or ():
        _write_report(file, lists)
    options.write_json(request.json, lists)
    if request.format == "md":
        typer.echo(lists.to_markdown(), nl=False)
    else:
        options.show(lists, None, show_all=request.whole)
    request.exit_with_verdict(lists.verdicts)


def _judge_variants(loaded: "LoadedExperiment", request: _Request) -> None:
    """Judge the variants of an A/B test; write and print the result."""
    from abeval.files import write_text

    study: Study | None = None
    has_logs = request.connect is None and request.sums is None and loaded.sums is None
    has_study = bool(request.report) and has_logs and not loaded.is_table
    with show_progress("study" if has_study else "analyze", profile=request.profile) as step:
        if has_study:
            # A report of logs has all that they allow, which takes longer than the analysis.
            study = loaded.study(step=step)
            result = cast("Result", study.analysis)
        elif request.sums is not None and loaded.sums is None:
            result = loaded.from_sums(request.sums)
        else:
            result = loaded.analyze(step=step, connect=request.connect)
        if request.history is not None:
            from abeval.history.history import read_past
            from abeval.history.worth import shrink_worth

            result = shrink_worth(result, read_past(request.history))
            study = study and replace(study, analysis=result)
        step("writing")
        options.write_json(request.json, result)
        if request.csv is not None:
            write_text(request.csv, result.to_csv())
        for file in request.report or ():
            _write_report(file, _as_study(study or result))
    _print_analysis(result, study, request)
    if request.connect is not None:
        typer.echo(next(note for note in result.notes if "left the warehouse" in note), err=True)
    request.exit_with_verdict(result.verdicts)


def _print_analysis(result: "Result", study: "Study | None", request: _Request) -> None:
    """Print an analysis as text, as Markdown, or as JSON for programs."""
    outlook, offline = None, tuple[str, ...]()
    if study is not None:
        from abeval.report.agreement_page import write_standings

        outlook, offline = study.outlook, write_standings(study)
    if request.format == "md":
        typer.echo(_as_study(study or result).to_markdown(), nl=False)
    elif request.brief:
        from abeval.brief import write_brief_json

        typer.echo(write_brief_json(result, outlook, offline))
    else:
        from abeval.report.terminal import print_result

        print_result(result, options.open_console(), request.whole, outlook, offline)


def _as_study(result: "Result | Study") -> "Study":
    from abeval.results.study import build_study

    return build_study(result)


def _write_report(file: Path, result: "Study | InterleavingResult") -> None:
    """Write a page, Markdown or JSON, by the ending of the file's name."""
    match file.suffix.lower():
        case ".json":
            write_text(file, result.to_json())
        case ".md":
            write_text(file, result.to_markdown())
        case _:
            result.report(file)


def report(
    files: options.ResultFiles,
    output: Annotated[
        Path | None,
        options.output_file(help="Write the page, or the Markdown."),
        options.Writes(),
    ] = None,
    format: Annotated[
        Literal["html", "md"], typer.Option(help="html, or md for a pull request or a chat.")
    ] = "html",
    json: options.JsonFile = None,
) -> None:
    """Report results on one page, or in Markdown: those of one experiment, as --json wrote them.

    Examples:
    abeval report result.json --output report.html
    abeval report result.json agreement.json --format md
    """
    if format == "html":
        if output is None:
            raise ExperimentError("a page needs a file", "name it: --output report.html")
        options.check_page(output)
    result = _load_results(files)
    options.write_json(json, result)
    if format == "html" and output is not None:
        result.report(output)
        return
    text: str = view("markdown")(result)
    if output is not None:
        write_text(output, text)
    else:
        typer.echo(text, nl=False)


def _load_results(files: list[Path]) -> "PageRecord":
    """Read results of one experiment, or one result that has a page of its own."""
    from abeval.results.history import HISTORY_SCHEMA_VERSION, HistoryReport
    from abeval.results.interleaving import InterleavingResult
    from abeval.results.off_policy import OffPolicyResult
    from abeval.results.study import (
        PAGED,
        PREFERENCES,
        Kind,
        build_study,
        read_result,
        read_results,
    )

    if experiments := [file for file in files if options.is_toml(file)]:
        hint = f"analyze it: abeval analyze {experiments[0]} --report report.html"
        raise ExperimentError(f"{experiments[0]} is an experiment file, not a result", hint)
    if len(files) > 1:
        return read_results(files)
    kinds = (
        Kind("", "realised", OffPolicyResult, None),
        Kind("", "predictions", HistoryReport, HISTORY_SCHEMA_VERSION),
        PREFERENCES,
    )
    result = read_result(files[0], PAGED._replace(kinds=(*PAGED.kinds, *kinds)))
    if isinstance(result, OffPolicyResult | HistoryReport | InterleavingResult):
        return result
    return build_study(result)
