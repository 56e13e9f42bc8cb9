"""Run `abeval analyze` and `abeval report`."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, cast

import typer
from typer import Option

from abeval.cli import options
from abeval.cli.options import To, list_parameters, parse_read, parse_weights, read_keywords
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


class _Columns(NamedTuple):
    """Options of a table of one row a unit: its columns, and how they are read.

    Options:
        unit: The unit; without it each row is one.
        variant: The variant.
        metric: A column, or name=clicks/views for a ratio; repeat for more. Default: all numbers.
        covariate: Measured before the experiment, for CUPED; repeat for more.
        segment: Effects by its values too; repeat for more.
        read: How the file is read: table=, sheet=, encoding=, delimiter=, decimal=, header=,
            format=; repeatable.
        missing: Units without a value count as 0, or do not count. Default: they are refused.
        control: Default: the one called so, or the first by name.
        weights: Planned shares of the variants, such as a=0.9,b=0.1. Default: equal ones.
    """

    unit: options.Column = None
    variant: options.Column = None
    metric: Annotated[list[str] | None, Option(metavar="METRIC"), To("metrics")] = None
    covariate: Annotated[list[str] | None, Option(metavar="COLUMN"), To("covariates")] = None
    segment: Annotated[list[str] | None, Option(metavar="COLUMN"), To("segments")] = None
    read: Annotated[list[str] | None, Option(metavar="KEY=VALUE"), To(read=parse_read)] = None
    missing: Annotated[Literal["zero", "drop"] | None, Option(metavar="zero|drop")] = None
    control: options.Variant = None
    weights: Annotated[str | None, Option(metavar="A=SHARE,…"), To(read=parse_weights)] = None


_COLUMNS = list_parameters(_Columns, "Table of one row a unit")


def _load(file: Path | None, values: dict[str, Any]) -> "LoadedExperiment":
    from abeval.api import load
    from abeval.engines.sources import is_table

    # An empty text, as of a shell variable that is not set, is none.
    entered = {option.name: values.pop(option.name) or None for option in _COLUMNS}
    columns = read_keywords(_COLUMNS, entered)
    names = [name for name, value in entered.items() if value is not None]
    if file is None:
        loaded = _load_sums_table(values["sums"], columns, names)
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


class _Request(NamedTuple):
    """What the options ask for: which result, of what input, in which outputs.

    Options:
        report: Write all that is known: a page, or by its name .md or .json; repeat for more.
        csv: Write the scorecard as CSV.
        checks: Only check the split and the logs.
        pairs: Only compare every pair of variants on a metric, p adjusted over the pairs.
        brief: Print at most 4 kB of JSON for programs: decision, why, next step.
        format: text, or md for a chat: at most 20 lines of text.
        gate: Exit with 3, 4, 5 or 6 unless the verdict is to ship, or checks pass.
        profile: Print the time of each step, on stderr.
        sums: Judge sums by metric, variant and day instead of logs.
        history: Past experiments, which say what to expect of a lift.
        connect: Sum in a warehouse that has the logs' tables: postgresql://…, http://…, chdb:….
    """

    json: options.JsonFile = None
    report: Annotated[
        list[Path] | None, options.output_file(), options.Writes(check=_check_report)
    ] = None
    csv: options.OutputFile = None
    checks: bool = False
    pairs: Annotated[str | None, Option(metavar="METRIC")] = None
    whole: options.Whole = False
    brief: bool = False
    format: Literal["text", "md"] = "text"
    gate: bool = False
    profile: bool = False
    sums: options.InputFile = None
    history: options.InputFile = None
    connect: options.Address = None

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
    options.add_engine_options,
    load=_load,
    parameters=(*list_parameters(_Request), *_COLUMNS),
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
    output: options.OutputFile = None,
    format: Literal["html", "md"] = "html",
    json: options.JsonFile = None,
) -> None:
    """Report the results of one experiment on one page, or in Markdown.

    Options:
        output: Write the page, or the Markdown.
        format: html, or md for a pull request or a chat.

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
