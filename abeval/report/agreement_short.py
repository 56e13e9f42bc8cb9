"""An agreement as short tables: the explanation, the table, the models on both traffics, causes.

`short.py` asks for them.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from abeval.report.layout import Kind
from abeval.report.tables import TextTable
from abeval.results import codes
from abeval.results import format as fmt

if TYPE_CHECKING:
    from abeval.results.agreement import Agreement, AgreementRow, Cause, Decomposition, MatrixCell


def agreement_tables(result: "Agreement", whole: bool) -> tuple[TextTable | str, ...]:
    """Sentences first, then tables; with `whole`, every online metric and every cause's needs."""
    shown = (*_pairs(result, whole), *model_tables(result, whole))
    return (*sentences(result), *shown, *_more(result, whole), _causes(result))


def sentences(result: "Agreement") -> tuple[str, ...]:
    """What the results say together, a sentence each."""
    several = len(result.explanations) > 1
    return tuple(
        f"{f'{said.variant}: ' if several else ''}{sentence}"
        for said in result.explanations
        for sentence in said.sentences
    )


def model_tables(result: "Agreement", whole: bool) -> tuple[TextTable, ...]:
    """Models on traffics, the logged difference, backtests; with `whole`, every estimator."""
    return (*_matrix(result), *_backtests(result, whole))


def _more(result: "Agreement", whole: bool) -> tuple[str, ...]:
    hidden = 0 if whole else sum(row.role != "goal" for row in result.rows)
    return (f"{fmt.count(hidden)} more pairs of metrics: --all",) if hidden else ()


def _pairs(result: "Agreement", whole: bool) -> Iterator[TextTable]:
    table = pair_table(result, whole)
    if table.rows:
        yield table


def pair_table(result: "Agreement", whole: bool) -> TextTable:
    """Every pair of an offline and an online metric; of the goals only, without `whole`."""
    rows = [row for row in result.rows if whole or row.role == "goal"]
    level = fmt.level(result.alpha)
    return TextTable(
        "Offline against online",
        f"offline on control's traffic, online as lift, with {level} intervals.",
        ("offline", "online", "variant", "difference", "lift", "standing", "why not"),
        tuple(_cells(row) for row in rows),
        ("name", "name", "extra", "number", "number", "name", "note"),
    )


def _cells(row: "AgreementRow") -> tuple[str, ...]:
    lift = fmt.lift(row.lift, row.lift_low, row.lift_high)
    return (
        *(row.offline, row.online, row.variant),
        number(row.difference, row.low, row.high, signed=True),
        fmt.MISSING if lift is None else f"{lift.estimate} {lift.interval}",
        row.standing,
        codes.reason(row.reason),
    )


def number(
    value: float | None, low: float | None, high: float | None, *, signed: bool = False
) -> str:
    """A number with its interval.

    Example:
        >>> number(0.0316, 0.0211, 0.042, signed=True)
        '+0.0316 [+0.0211, +0.0420]'
    """
    form = "+.4f" if signed else ".4f"
    if value is None:
        return fmt.MISSING
    ends = "" if low is None or high is None else f" [{low:{form}}, {high:{form}}]"
    return f"{value:{form}}{ends}"


def _matrix(result: "Agreement") -> Iterator[TextTable]:
    if not result.matrix:
        return
    traffics = list(dict.fromkeys(cell.traffic for cell in result.matrix))
    numbers: tuple[Kind, ...] = ("number",)
    keys = dict.fromkeys((cell.metric, cell.model) for cell in result.matrix)
    cells = {(cell.metric, cell.model, cell.traffic): cell for cell in result.matrix}
    yield TextTable(
        "Models on traffics",
        "each model on the traffic that each variant served.",
        ("metric", "model", *traffics),
        tuple((*key, *(_value(cells.get((*key, t))) for t in traffics)) for key in keys),
        ("name", "name", *numbers * len(traffics)),
    )
    yield TextTable(
        "Logged difference",
        "each model on its own traffic: what the model changes, and what the traffic.",
        ("metric", "variant", "logged", "model", "traffic"),
        tuple(_parts(part) for part in result.decompositions),
        ("name", "extra", "number", "number", "number"),
    )


def _value(cell: "MatrixCell | None") -> str:
    return fmt.MISSING if cell is None else number(cell.value, cell.low, cell.high)


def _parts(part: "Decomposition") -> tuple[str, ...]:
    return (
        *(part.metric, part.variant),
        number(part.logged, part.logged_low, part.logged_high, signed=True),
        number(part.model, part.model_low, part.model_high, signed=True),
        number(part.traffic, part.traffic_low, part.traffic_high, signed=True),
    )


def _backtests(result: "Agreement", whole: bool) -> Iterator[TextTable]:
    rows = [row for row in result.backtests if whole or row.estimator in ("ips", "snips", "dr")]
    if rows:
        yield TextTable(
            "Off-policy backtest",
            "one variant estimated from the log of the other, against what happened.",
            ("from", "to", "estimator", "estimate", "realised", "z"),
            tuple(
                (
                    *(row.source, row.target, row.estimator),
                    number(row.value, row.low, row.high),
                    number(row.realised, None, None),
                    fmt.MISSING if row.z is None else f"{row.z:+.2f}",
                )
                for row in rows
            ),
            ("name", "name", "name", "number", "number", "number"),
        )


def _causes(result: "Agreement") -> TextTable:
    return TextTable(
        "Causes",
        "found ones first, by the share of the gap that they account for.",
        ("cause", "variant", "status", "p", "gap", "what was seen"),
        tuple(_cause(cause) for cause in result.causes),
        ("name", "extra", "name", "number", "number", "words"),
    )


def _cause(cause: "Cause") -> tuple[str, ...]:
    share = "" if cause.accounts_for is None else fmt.percent(cause.accounts_for)
    p = "" if cause.p_adjusted is None else fmt.p_value(cause.p_adjusted)
    return (cause.name, cause.variant, cause.status, p, share, cause.message)
