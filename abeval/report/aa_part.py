"""The part of the page on A/A replays: how often each test rejects where nothing differs.

`registry.py` lists it.
"""

from abeval.report import effect_figures
from abeval.report.effects import slugs
from abeval.report.figures import Block, FigureView, Section, by_role
from abeval.report.tables import TextTable
from abeval.results import AAMetric
from abeval.results import format as fmt
from abeval.results.study import Study
from abeval.results.trust import AAResult

_HEADS = ("metric", "test", "rejects", "interval", "uniform p", "replays")


def aa_part(study: Study) -> Section | None:
    """Every metric's replays."""
    aa = study.aa
    if aa is None or not aa.metrics:
        return None
    off = aa.off()
    ids = slugs([row.metric for row in aa.metrics])
    views = [(row.metric, _view(aa, row, ids[row.metric])) for row in aa.metrics]
    rows = tuple(_cells(row, row.metric in off) for row in aa.metrics)
    blocks: list[Block] = [TextTable("", "", _HEADS, rows)]
    refused = tuple((name, why) for name, why in aa.refused.items())
    if refused:
        blocks.append(TextTable("Not replayed", "", ("metric", "why"), refused))
    lead = (
        "P-values when nothing differs. If the test keeps its level on this log, they are flat, "
        f"and {fmt.percent(aa.alpha)} of them are below {aa.alpha:g}."
        f"{f' Off: {fmt.listing(off)}.' if off else ''}"
    )
    return Section(lead, (*blocks, *by_role(study, views)))


def _cells(row: AAMetric, is_off: bool) -> tuple[str, ...]:
    return (
        row.metric,
        "off" if is_off else "holds",
        f"{row.rejection_rate:.2%}",
        f"[{row.rejection_low:.2%}, {row.rejection_high:.2%}]",
        fmt.p_value(row.uniformity_p_value),
        fmt.count(row.runs),
    )


def _view(aa: AAResult, row: AAMetric, slug: str) -> FigureView:
    counts = aa.histograms[row.metric]
    width = 1 / len(counts)
    return FigureView(
        anchor=f"aa-{slug}",
        title=row.metric,
        takeaway=(
            f"Rejects {row.rejection_rate:.2%} of {row.runs:,} replays in which nothing differs."
        ),
        figure=effect_figures.histogram_figure(counts),
        heads=("p from", "to", "replays"),
        rows=tuple(
            (f"{i * width:.3g}", f"{(i + 1) * width:.3g}", fmt.count(n))
            for i, n in enumerate(counts)
        ),
        key=("aa", row.metric),
    )
