"""Evaluate a whole log, the parts of it that are asked for, and curves over k."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from abeval.offline.candidates import Accounts
from abeval.offline.curves import compute_curves
from abeval.offline.estimates import Estimates, PartSums, build_result
from abeval.offline.expressions import Expression
from abeval.offline.metrics import Scoring
from abeval.offline.sums import Sums
from abeval.progress import Step
from abeval.results.replay import ReplayResult

SumPart = Callable[[Scoring, Expression | None], tuple[Sums, Accounts]]
"""Sums metrics of a part, or of the whole for None; counts what was left out."""


def evaluate_parts(
    sum_part: SumPart,
    scoring: Scoring,
    step: Step,
    *,
    name: str,
    control: str | None,
    notes: Sequence[str] = (),
    part_sources: Mapping[str, str] | None = None,
) -> tuple[ReplayResult, Sums]:
    """Return the result of the whole and its parts, and the sums of the whole.

    The models are compared with that of `control`. `part_sources` says whose columns a part reads,
    by its name; without, they are those of the log.
    """
    # Each call replaces the relations of the engine, so a part is summed before the next begins.
    sums, accounts = sum_part(scoring, None)
    parts = [
        PartSums(
            part,
            "log" if part_sources is None else part_sources[part.name],
            sum_part(scoring, part)[0],
        )
        for part in scoring.parts
    ]
    step("inference")
    result = build_result(
        sums,
        scoring,
        name=name,
        control=control,
        accounting=accounts,
        notes=notes,
        parts=parts,
    )
    if scoring.curve:
        step("curves")
        of_k = replace(scoring, metrics=scoring.curve)
        # Curves have other metrics and cut-offs, so they need a run of their own.
        every = [sum_part(of_k, part)[0] for part in (None, *scoring.parts)]
        drawn = [
            curve for part_sums in every for curve in compute_curves(Estimates(part_sums, of_k))
        ]
        result = replace(result, curves=tuple(drawn))
    return result, sums
