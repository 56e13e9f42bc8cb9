"""Write a history of experiments as one HTML file that works offline."""

from collections.abc import Iterator, Sequence

from abeval.report import figures as fig
from abeval.report import history_short as short
from abeval.report.figures import FigureView
from abeval.report.sections import Section, sections_html
from abeval.report.short import notes
from abeval.report.tables import interval, scaled, with_rows
from abeval.results import format as fmt
from abeval.results.history import HistoryEffect, HistoryReport, Prediction


def scatter_figure(
    row: Prediction, pairs: Sequence[tuple[HistoryEffect, HistoryEffect]]
) -> fig.Figure:
    """Draw experiments by effects on predictor and target, turned so that more is better."""
    x, y = [_turned(one, 1.0) for one, _ in pairs], [_turned(other, 100.0) for _, other in pairs]
    points = fig.scatter(
        x=[value for value, _, _ in x],
        y=[value for value, _, _ in y],
        error_x=fig.error_bars(x, fig.GREY, 1.0),
        error_y=fig.error_bars(y, fig.GREY, 1.0),
        mode="markers",
        marker={"color": fig.colour(0), "size": 8},
        customdata=[fig.label(f"{one.experiment}, {one.variant}") for one, _ in pairs],
        hovertemplate="%{customdata}<br>%{x:.4g}, %{y:+.3g}%<extra></extra>",
        showlegend=False,
    )
    across = fig.effect_axis((end for ends in x for end in ends), title=row.predictor)
    up = fig.effect_axis((end for ends in y for end in ends), "%", row.target)
    lines = [] if row.slope is None else [_line(100.0 * row.slope, across["range"], x, y)]
    return fig.figure(
        [points],
        380,
        {"l": 62, "r": 12, "t": 12, "b": 48},
        xaxis=across,
        yaxis=up,
        shapes=lines,
    )


def _line(
    slope: float, across: Sequence[float], x: Sequence[fig.Interval], y: Sequence[fig.Interval]
) -> fig.Trace:
    """Draw the line of true effects, through the mean of the estimates."""
    middle_x, middle_y = (sum(value or 0.0 for value, _, _ in ends) / len(ends) for ends in (x, y))
    up = [middle_y + slope * (end - middle_x) for end in across]
    return fig.dashed(across, up, fig.colour(1), 1.8)


def forest_figure(effects: Sequence[HistoryEffect]) -> fig.Figure:
    """Draw every effect on one metric, as measured and as shrunk, largest on top."""
    ordered = sorted(effects, key=lambda one: -one.effect)
    several = len({one.variant for one in ordered}) > 1
    names = [_named(one, several) for one in ordered]
    series: dict[str, list[fig.Spot]] = {"measured": [], "shrunk": []}
    for i, one in enumerate(ordered):
        measured = scaled(100, one.effect, one.low, one.high)
        for name, ends in (("measured", measured), ("shrunk", interval(one, "shrunk", 100))):
            series[name].append(fig.Spot(i, ends, f"{names[i]}: {ends[0] or 0:+.3g}%"))
    return fig.forest(names, series, **fig.effect_axis(fig.ends_of(series), "%"))


def _named(one: HistoryEffect, several: bool) -> str:
    shipped = "* " if one.shipped else ""
    return f"{shipped}{one.experiment}{f', {one.variant}' if several else ''}"


def _turned(one: HistoryEffect, scale: float) -> fig.Interval:
    """Turn an effect with its interval so that more is better."""
    if one.direction == "decrease":
        return -scale * one.effect, -scale * one.high, -scale * one.low
    return scale * one.effect, scale * one.low, scale * one.high


def history_page_html(result: HistoryReport) -> str:
    """Write the page."""
    learned, *said = short.sentences(result)
    return sections_html(
        "History",
        learned,
        said,
        Section(
            "predictions",
            "Offline against online",
            "Effects are turned so that more is better. Correlations are of true effects, "
            f"corrected for the noise of both metrics, with {fmt.level(result.alpha)} intervals.",
            (
                *_scatters(result),
                *with_rows(short.prediction_table(result)._replace(title="", lead="")),
            ),
        ),
        Section.of(
            short.sensitivity_table(result),
            more="Signal is the share of true effects in what was measured.",
        ),
        Section(
            "gained",
            "Gained",
            "Lifts of what was shipped, added up: as measured, and shrunk by the spread of all. To "
            "ship what looks best adds up luck too; what is shrunk has less of it.",
            (*_forests(result),),
        ),
        Section("notes", "Notes", sentences=notes(result)),
        lines=(short.verdict(result),),
    )


def _scatters(result: HistoryReport) -> Iterator[FigureView]:
    """Draw one a target: its best predictor, or the one with the highest correlation."""
    for i, row in enumerate(_drawn(result)):
        drawn = scatter_figure(row, _pairs(result.effects, row))
        title = f"{row.predictor} and {row.target}"
        corrected, ends = fmt.estimate(row.correlation, row.low, row.high)
        naive = fmt.MISSING if row.naive is None else f"{row.naive:.2f}"
        sentence = f"Correlation of true effects {corrected} {ends}; of the estimates {naive}."
        yield FigureView(title, sentence, drawn, (f"pair{i}",))


def _drawn(result: HistoryReport) -> list[Prediction]:
    fitted = [row for row in result.predictions if row.correlation is not None]
    best = {choice.target: choice.best for choice in result.choices}
    chosen = {row.target: row for row in fitted}

    def rank(row: Prediction) -> tuple[bool, float]:
        return row.predictor == best.get(row.target), abs(row.quality or 0.0)

    return list((chosen | {r.target: r for r in sorted(fitted, key=rank)}).values())


def _pairs(
    effects: Sequence[HistoryEffect], row: Prediction
) -> list[tuple[HistoryEffect, HistoryEffect]]:
    by_case = {(e.experiment, e.variant): e for e in effects if e.measure == row.target}
    own = [e for e in effects if e.measure == row.predictor]
    return [
        (e, by_case[e.experiment, e.variant]) for e in own if (e.experiment, e.variant) in by_case
    ]


def _forests(result: HistoryReport) -> Iterator[FigureView]:
    for i, row in enumerate(result.gained):
        own = [e for e in result.effects if (e.measure, e.side) == (row.metric, "online")]
        if shrunk := [e for e in own if e.shrunk is not None]:
            sentence = f"{row.shipped} shipped (*), added up: {short.gained_words(row)}."
            yield FigureView(row.metric, sentence, forest_figure(shrunk), (f"forest{i}",))
